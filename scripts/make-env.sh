#!/bin/sh
# Writes .env, with new secrets for docker-compose.yaml. It needs nothing but a shell, and never changes an .env.
set -eu
umask 077
cd "$(dirname "$0")/.."

hex() { od -An -vtx1 -N"$1" /dev/urandom | tr -d ' \n'; }
# A Fernet key is 32 bytes in base64, with - and _ for + and /.
fernet=$(dd if=/dev/urandom bs=32 count=1 2>/dev/null | base64 | tr '+/' '-_')
text="POSTGRES_PASSWORD=$(hex 32)
AIRFLOW_JWT_SECRET=$(hex 64)
AIRFLOW_API_SECRET_KEY=$(hex 32)
AIRFLOW_FERNET_KEY=$fernet
# The passwords of Airflow's users.
ADMIN_PASSWORD=$(hex 8)
OLIVE_PASSWORD=$(hex 8)
UMA_PASSWORD=$(hex 8)"

set -C # > does not overwrite
if ! (printf '%s\n' "$text" >.env) 2>/dev/null; then
    echo "There is an .env, or this folder cannot be written. Nothing was changed. To make new secrets, remove .env first." >&2
    exit 1
fi
echo "Secrets and passwords are in .env. Do not commit it."
