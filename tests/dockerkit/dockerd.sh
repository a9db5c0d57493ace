#!/bin/sh
# A Docker Engine of one's own: dockerd.sh start|stop|kill|restart|clean DIR [more dockerd flags]
#
# Socket, data and state lie in DIR (keep its path short: a socket's is limited to 107 bytes), and it has a network namespace of
# its own, because two engines in one would fight for docker0: even `--bridge=none` takes that bridge away from the other one.
# So its published ports and its host network are reached from inside that namespace only. Needs root.
# NIGHTSWEEP_DOCKERD_NETWORK=machine gives it the machine's network: for the only engine of a machine. It gets a bridge of its own all
# the same: on docker0, containers of an engine that was killed may still hold the addresses that this one would give out again.
set -eu
word=${1:?start|stop|kill|restart|clean}
dir=${2:?a directory of its own}
shift 2

pid() { cat "$dir/pid" 2>/dev/null || echo 0; }

# A zombie counts as gone: where pid 1 does not reap, one stays after each stop.
alive() {
    stat=$(cat "/proc/${1:-$(pid)}/stat" 2>/dev/null) || return 1
    state=${stat##*) }
    [ "${state%% *}" != Z ]
}

bridge="ns$(printf '%s' "$dir" | cksum | cut -d' ' -f1)"

# A bridge of its own, in the first /24 that no interface and no route of this machine has.
own_bridge() {
    ip link show "$bridge" >/dev/null 2>&1 && return 0
    for third in $(seq 200 254); do
        [ -z "$(ip -4 -o addr show to "10.231.$third.0/24")$(ip -4 route show root "10.231.$third.0/24")" ] && break
    done
    ip link add "$bridge" type bridge && ip addr add "10.231.$third.1/24" dev "$bridge" && ip link set "$bridge" up
}

start() {
    mkdir -p "$dir"
    alive && return 0
    rm -f "$dir/pid"
    # The engine's own containerd dies with it; a dead one that was not reaped would be waited for as if it lived.
    daemon=$dir/exec/containerd/containerd.pid
    alive "$(cat "$daemon" 2>/dev/null || echo 0)" || rm -f "$daemon"
    apart="unshare --net sh -c"
    [ "${NIGHTSWEEP_DOCKERD_NETWORK:-}" = machine ] && {
        apart="sh -c"
        own_bridge
        set -- --bridge "$bridge" "$@"
    }
    # shellcheck disable=SC2086,SC2016
    setsid nohup $apart 'ip link set lo up; exec dockerd "$@"' dockerd --data-root "$dir/root" --exec-root "$dir/exec" -H "unix://$dir/d.sock" --pidfile "$dir/pid" \
        --log-level warn "$@" >>"$dir/log" 2>&1 </dev/null &
    for _ in $(seq 1 300); do
        DOCKER_HOST="unix://$dir/d.sock" docker version >/dev/null 2>&1 && return 0
        sleep 0.1
    done
    echo "dockerd does not answer; its log:" >&2
    tail -20 "$dir/log" >&2
    return 1
}

stop() {
    alive && kill -"$1" "$(pid)"
    for _ in $(seq 1 300); do
        alive || { rm -f "$dir/pid"; return 0; }
        sleep 0.1
    done
    return 1
}

# Whatever still runs in containers, the containerd, and all data of this engine.
clean() {
    alive && stop TERM
    for root in $(pgrep -f -- "$dir/exec" || true); do kill -KILL "$root" 2>/dev/null || true; done
    awk -v d="$dir/" 'index($2, d) == 1 {print $2}' /proc/self/mounts | sort -r | while read -r m; do umount -l "$m" || true; done
    ip link del "$bridge" 2>/dev/null || true
    rm -rf "$dir"
}

case $word in
start) start "$@" ;;
stop) stop TERM ;;
kill) stop KILL ;;
restart) stop TERM && start "$@" ;;
clean) clean ;;
*) echo "start|stop|kill|restart|clean" >&2; exit 2 ;;
esac
