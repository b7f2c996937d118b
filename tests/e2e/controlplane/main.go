// One binary that is etcd, kube-apiserver, kube-scheduler, kube-controller-manager and kubectl by the name it is started
// under: they share nearly all of their code, so that one link takes a quarter of the time and of the disk of five.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	_ "k8s.io/component-base/logs/json/register"            // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/restclient" // request metrics
	_ "k8s.io/component-base/metrics/prometheus/version"    // kubernetes_build_info
)

func main() {
	name := filepath.Base(os.Args[0])
	if name != "kubectl" {
		go endWithParent(os.Getppid())
	}
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "kubectl":
		if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
			os.Exit(1)
		}
	default:
		fmt.Fprintf(os.Stderr, "start as etcd, kube-apiserver, kube-controller-manager, kube-scheduler or kubectl, not %q\n", name)
		os.Exit(2)
	}
}

// endWithParent ends a server that nobody can stop any more: tests that were killed stop nothing.
func endWithParent(parent int) {
	for os.Getppid() == parent {
		time.Sleep(time.Second)
	}
	os.Exit(1)
}
