"""How much of an object is looked at, and how large what is made of it can be."""

MAX_TEMPLATES = 200
"""Templates of one object that are looked at. The largest real ones, JobSets and Ray clusters, have some ten.

The pods of any further ones are judged when they are created."""

MAX_CONTAINERS = 1_000
"""Containers of one object's templates after which no further template is looked at: half a second of work, where real
objects have some fifty. The first template is looked at whatever its size, as a pod is."""

MAX_REPLICAS = 2**31 - 1
"""Replicas are int32 in every API (kubernetes/api:apps/v1/types.go); a product of them stays here."""

MAX_DIGITS = 9
"""Digits of a number that stands in a text: any such number is an int32."""

MAX_NAME = 253
"""Characters of a DNS subdomain (kubernetes/apimachinery:pkg/util/validation).

Longer ones name nothing, and would be copied into every pod of an object."""

MAX_LABEL = 63
"""Characters of a DNS label, from the same place."""
