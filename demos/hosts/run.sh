#!/bin/bash
# A run on the hosts of a file, one name in each line, that goes on without a host that is lost:
#   demos/hosts/run.sh hosts.txt params/natural_images.toml runs/natural_images
# All hosts see this folder and the run directory at the same place, as on NFS, and are reached by ssh.
set -u
hosts=$1 params=$2 run=$3
ranks=${RANKS:-1}                  # on each host
source "${VENV:-.venv}/bin/activate"    # where petabatch, mpi4py and MPICH are installed

answering() {
    while read -r host; do
        ssh -o ConnectTimeout=5 -o BatchMode=yes "$host" true < /dev/null 2> /dev/null && echo "$host:$ranks"
    done < "$hosts"
}

up=$(answering)
while [ -n "$up" ]; do
    if [ -d "$run" ]; then
        command=(petabatch resume "$run")
    else
        command=(petabatch run "$params" --out "$run")
    fi
    number=$(($(wc -l <<< "$up") * ranks))
    mpirun ${MPIRUN_OPTIONS:-} -hosts "$(paste -sd, <<< "$up")" -n "$number" "${command[@]}" --mpi
    code=$?
    case $code in
        0 | 2 | 3) exit $code ;;   # done, wrong params, or stopped
    esac
    before=$up
    up=$(answering)
    [ "$up" != "$before" ] || exit $code    # no host is the cause
    echo "exit code $code; hosts that answer: $(paste -sd' ' <<< "${up:-none}")" >&2
done
exit 1
