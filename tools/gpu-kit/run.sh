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

# Folders that may contain NVRTC and CUDA's headers: toolkits, and the wheels that PyTorch installs.
toolkits() {
    printf '%s\n' "${CUDA_PATH:-}" "${CUDA_HOME:-}"
    nvcc=$(readlink -f "$(command -v nvcc)") && dirname "$(dirname "$nvcc")"
    printf '%s\n' /usr/local/cuda /usr/local/cuda-* /opt/cuda
    python3 -c 'import nvidia
for folder in nvidia.__path__: print(*(f"{folder}/{part}" for part in ("cu13", "cuda_runtime")), sep="\n")' 2>/dev/null
    echo /usr
}

# Links the toolkit $1 into one folder. Wheels lack the headers of matrix units, which Triton has.
link_toolkit() {
    [ -e "$1/include/cuda_fp16.h" ] || return 1
    for libraries in "$1"/lib64 "$1"/lib "$1"/lib/*-linux-gnu "$1"/../cuda_nvrtc/lib; do
        for nvrtc in "$libraries"/libnvrtc.so*; do [ -e "$nvrtc" ] && break 2; done
    done
    [ -e "$nvrtc" ] || return 1
    rm -rf "$room/cuda"
    mkdir -p "$room/cuda/include"
    ln -s "$1"/include/* "$room/cuda/include/"
    ln -s "$nvrtc" "$room/cuda/libnvrtc.so"
    ln -s "$libraries"/libnvrtc-builtins.so* "$room/cuda/"
    triton=$(python3 -c 'import triton; print(*triton.__path__)' 2>/dev/null)/backends/nvidia/include/crt
    if ! [ -e "$room/cuda/include/crt" ] && [ -e "$triton" ]; then ln -s "$triton" "$room/cuda/include/"; fi
    [ -e "$room/cuda/include/crt/mma.h" ] || echo "run: $1 lacks crt/mma.h, so kernels with matrix units fail"
}

# Sets the first toolkit whose NVRTC compiles a kernel that the driver loads. Its NVRTC may be newer than the driver.
choose_toolkit() {
    toolkits >"$room/toolkits" || :
    export CUDA_PATH="$room/cuda" LD_LIBRARY_PATH="$room/cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    tried=
    while read -r GPU_KIT_CUDA; do
        export GPU_KIT_CUDA
        link_toolkit "$GPU_KIT_CUDA" || continue
        tried="$tried $GPU_KIT_CUDA"
        if timeout 60 "$room/gpu-kit-cuda" part device >"$room/device.log" 2>&1; then
            export PATH="$PATH:$GPU_KIT_CUDA/bin"
            echo "run: CUDA with $GPU_KIT_CUDA"
            return
        fi
        echo "run: CUDA with $GPU_KIT_CUDA: $(tail -n 1 "$room/device.log" | cut -c 1-300)"
        if grep -q 'no CUDA device' "$room/device.log"; then return 1; fi
    done <"$room/toolkits"
    [ -n "$tried" ] ||
        echo "run: CUDA needs NVRTC and headers: in CUDA_PATH, next to nvcc, in /usr/local/cuda or from PyTorch"
    return 1
}

if [ -e "$kit/gpu-kit-cuda.gz" ]; then
    unpack gpu-kit-cuda
    if choose_toolkit; then first=$room/gpu-kit-cuda; fi
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
