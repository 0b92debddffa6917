"""Fill Keystone: endpoints, projects, users, roles.  Safe to repeat.

keystone-manage bootstrap has already made the admin user, the roles admin,
manager, member, reader and service, and the identity service.
"""

import os

import openstack

password = os.environ["OS_PASSWORD"]
region = os.environ["OS_REGION_NAME"]
catalogue = {
    # type: (name, url)
    "image": ("glance", os.environ["GLANCE_URL"]),
    "placement": ("placement", os.environ["PLACEMENT_URL"]),
    "block-storage": ("cinder", os.environ["CINDER_URL"] + "/v3"),
    "volumev3": ("cinderv3", os.environ["CINDER_URL"] + "/v3/%(project_id)s"),
    "network": ("neutron", os.environ["NEUTRON_URL"]),
    "container": ("zun", os.environ["ZUN_URL"] + "/v1"),
}
service_users = ["zun", "neutron", "cinder", "glance", "placement", "kuryr"]

cloud = openstack.connect()
identity = cloud.identity
domain = identity.get_domain("default")
roles = {role.name: role for role in identity.roles()}
services = {(s.type, s.name): s for s in identity.services()}
endpoints = {(e.service_id, e.interface): e for e in identity.endpoints()}


def project(name):
    return identity.find_project(name, domain_id=domain.id) or identity.create_project(name=name, domain_id=domain.id)


def user(name, home):
    return identity.find_user(name, domain_id=domain.id) or identity.create_user(
        name=name, password=password, domain_id=domain.id, default_project_id=home.id
    )


for kind, (name, url) in catalogue.items():
    service = services.get((kind, name)) or identity.create_service(type=kind, name=name)
    for interface in ("public", "internal", "admin"):
        old = endpoints.get((service.id, interface))
        if old is None:
            identity.create_endpoint(service_id=service.id, url=url, interface=interface, region_id=region)
        elif old.url != url:
            identity.update_endpoint(old, url=url)

service_project = project("service")
for name in service_users:
    account = user(name, service_project)
    for role in ("admin", "service"):
        identity.assign_project_role_to_user(service_project, account, roles[role])

demo_project = project("demo")
demo = user("demo", demo_project)
admin = identity.find_user("admin", domain_id=domain.id)
for role in ("member", "reader"):
    identity.assign_project_role_to_user(demo_project, demo, roles[role])
identity.assign_project_role_to_user(demo_project, admin, roles["admin"])
print("catalogue and accounts ready")
