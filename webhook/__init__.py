"""podgate: an admission gate for AI pods on Kubernetes and KubeSphere."""
