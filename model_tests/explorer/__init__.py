"""The specification's environment over the Python machines: the same graph as TLC's, or a mistake.

`world` reads a model's bounds from TLC itself, `instance` is one process of `Marshal.tla` over
`kafka_marshal.machines.consumer.consumer`, `environment` has the actions, `explore` goes through
all states and counts them. `properties` judges what it finds, `compare` says whether TLC found the
same. `parts_of_admins`, `environment_of_admins`, `properties_of_admins` and `mistakes_of_admins`
are the same of `SetPosition.tla`, over `kafka_marshal.machines.admin.admin`: several claims in one
log. Nothing here is part of the package, and all that makes it fast (interned parts, caches) stays
here.
"""
