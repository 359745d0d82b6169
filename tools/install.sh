#!/bin/sh
# SPDX-License-Identifier: MIT
# install.sh DESTDIR PREFIX LIB SIMT CUBLASLT CUDA_HOME - header, archive, pkg-config file.
set -eu
cd "$(dirname "$0")/.."
dest=$1$2
version=$(awk '/define INGOT_VERSION_(MAJOR|MINOR|PATCH)/ {v = v (v == "" ? "" : ".") $3} END {print v}' include/ingot.h)
if [ "$4" = 1 ]; then libs="-ldl -lpthread -lm"; elif [ "$5" = 1 ]; then libs="-L$6/lib64 -lcublasLt -lcudart_static -ldl -lrt -lpthread -lm"
else libs="-L$6/lib64 -lcudart_static -ldl -lrt -lpthread -lm"; fi
install -d "$dest/include" "$dest/lib/pkgconfig"
install -m 644 include/ingot.h "$dest/include/ingot.h"
install -m 644 "$3" "$dest/lib/libingot.a"
cat > "$dest/lib/pkgconfig/ingot.pc" <<EOF
prefix=$2
includedir=\${prefix}/include
libdir=\${prefix}/lib

Name: ingot
Description: CUDA kernels for GGUF-quantised inference
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lingot $libs
EOF
echo "installed in $dest: include/ingot.h lib/libingot.a lib/pkgconfig/ingot.pc"
