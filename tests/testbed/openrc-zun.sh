# shellcheck shell=bash
# Source this to act as the service account that Zun uses.
unset "${!OS_@}"
export OS_AUTH_URL=http://127.0.0.1:${KEYSTONE_PORT:-35357}/v3
export OS_AUTH_TYPE=password
export OS_IDENTITY_API_VERSION=3
export OS_USERNAME=zun
export OS_PASSWORD=${TESTBED_PASSWORD:-testbed}
export OS_PROJECT_NAME=service
export OS_USER_DOMAIN_ID=default
export OS_PROJECT_DOMAIN_ID=default
export OS_REGION_NAME=RegionOne
