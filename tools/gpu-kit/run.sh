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
unpack() {
    gzip -dc "$kit/$1.gz" >"$room/$1"
    chmod +x "$room/$1"
}

# Places of libdevice, the mathematical functions of CUDA: toolkits, and the wheels that PyTorch installs.
libdevices() {
    nvcc=$(readlink -f "$(command -v nvcc)") && nvcc=$(dirname "$(dirname "$nvcc")")
    for toolkit in "${CUDA_PATH:-}" "${CUDA_HOME:-}" "$nvcc" /usr/local/cuda /usr/local/cuda-* /opt/cuda /usr/lib/cuda; do
        printf '%s\n' "$toolkit/nvvm/libdevice/libdevice.10.bc"
    done
    python3 -c 'import glob, sys
for path in sys.path:
    for place in "nvidia/*/nvvm/libdevice", "triton/backends/nvidia/lib":
        print(*glob.glob(f"{path}/{place}/libdevice.10.bc"), sep="\n")' 2>/dev/null
}

# Whether CUDA works. Links the first libdevice into a folder like a toolkit.
has_cuda() {
    libdevices >"$room/libdevices" || :
    while read -r libdevice; do
        [ -e "$libdevice" ] || continue
        mkdir -p "$room/cuda/nvvm/libdevice"
        ln -s "$libdevice" "$room/cuda/nvvm/libdevice/"
        # A toolkit also has compute-sanitizer.
        export GPU_KIT_CUDA="${libdevice%/*/*/*}" CUDA_PATH="$room/cuda"
        export PATH="$PATH:$GPU_KIT_CUDA/bin"
        break
    done <"$room/libdevices"
    [ -n "${GPU_KIT_CUDA:-}" ] || {
        echo "run: CUDA needs libdevice.10.bc: in CUDA_PATH, next to nvcc, in /usr/local/cuda or from PyTorch"
        return 1
    }
    timeout 60 "$room/gpu-kit-cuda" part device >"$room/device.log" 2>&1 || {
        echo "run: CUDA: $(tail -n 1 "$room/device.log" | cut -c 1-300)"
        return 1
    }
}

if [ -e "$kit/gpu-kit-cuda.gz" ]; then
    unpack gpu-kit-cuda
    if has_cuda; then first=$room/gpu-kit-cuda; fi
fi
for name in gpu-kit-spirv gpu-kit-metal gpu-kit-wgsl; do
    [ -e "$kit/$name.gz" ] || continue
    unpack "$name"
    program=$room/$name
    if [ -z "$first" ]; then first=$program; else also="$also --also $program"; fi
done
[ -n "$first" ] || { echo "run: no program in $kit for this machine" >&2; exit 1; }

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
