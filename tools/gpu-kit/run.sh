#!/bin/sh
# Checks and times the GRU on this machine's GPU. Installs nothing.
#
#     run [--seconds 500] [--out OUT] [--parts device,kernels,...]
#
# Writes kit.json, page.md and the output of each part to OUT, and updates them after each part.
set -eu
kit=$(cd "$(dirname "$0")" && pwd)

# The programs are unpacked to a temporary folder.
room=$(mktemp -d "${TMPDIR:-/tmp}/gpu-kit.XXXXXX")
trap 'rm -rf "$room"' EXIT
first=
also=
for packed in "$kit"/gpu-kit-spirv.gz "$kit"/gpu-kit-metal.gz "$kit"/gpu-kit-wgsl.gz; do
    [ -e "$packed" ] || continue
    program=$room/$(basename "$packed" .gz)
    gzip -dc "$packed" >"$program"
    chmod +x "$program"
    if [ -z "$first" ]; then first=$program; else also="$also --also $program"; fi
done
[ -n "$first" ] || { echo "run: no program in $kit" >&2; exit 1; }

if [ "$(uname)" = Linux ]; then
    # Use the kit's Vulkan loader if the system has none.
    if ! PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | grep -q 'libvulkan\.so\.1'; then
        echo "run: this system has no Vulkan loader, using the loader of the kit"
        export LD_LIBRARY_PATH="$kit/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    fi
    # The place of NVIDIA's driver in containers, where Vulkan does not search.
    icd=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json
    if [ -z "${VK_DRIVER_FILES:-}" ] && [ -e "$icd" ] &&
        ! ls /usr/share/vulkan/icd.d/nvidia*.json /etc/vulkan/icd.d/nvidia*.json >/dev/null 2>&1; then
        export VK_DRIVER_FILES=$icd
    fi
fi

out=
for word in "$@"; do case $word in --out | --out=*) out=given ;; esac; done
[ -n "$out" ] || set -- "$@" --out OUT
export GRU_TESTS="$kit/data" GPU_KIT_PEERS="$kit/torch_peer.py"
# shellcheck disable=SC2086
"$first" run "$@" $also
