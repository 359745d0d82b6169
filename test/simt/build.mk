# SPDX-License-Identifier: MIT
#
# build.mk - builds and runs the tests of the SIMT host by themselves; run from the repository root:
#   make -f test/simt/build.mk            every mode of the plain build
#   make -f test/simt/build.mk SAN=address,undefined      (or SAN=thread)
#   make -f test/simt/build.mk nvcc       compiles the device side (needs the toolkit)
# The main Makefile compiles the same files with the same flags.

SAN ?=
comma := ,
B := build/simt-test$(if $(SAN),-$(subst $(comma),-,$(SAN)))

SIMT_INC := -I. -Isrc/simt/include
SIMT_CXX := -std=c++17 -march=x86-64-v3 -fno-strict-aliasing -fno-extern-tls-init -mno-red-zone \
            -fstack-clash-protection -fno-exceptions -fno-rtti -fno-threadsafe-statics
OPT      := -O2 -g -Wall -Wextra
# Kernels and C code get the sanitizers; under TSan the runtime's own files do not, but speak to it.
ifneq ($(findstring thread,$(SAN)),)
SAN_ALL  := -fsanitize=thread
SAN_RT   := -DSIMT_TSAN_RT=1
else ifneq ($(SAN),)
SAN_ALL  := -fsanitize=$(SAN) -fno-sanitize-recover=undefined -fno-omit-frame-pointer \
            $(if $(findstring undefined,$(SAN)),-DSIMT_UBSAN=1)
SAN_RT   := $(SAN_ALL)
endif
ifneq ($(SAN),)
OPT      := -O1 -g -Wall -Wextra
endif

RT    := $(patsubst src/simt/%.cpp,$(B)/%.o,$(wildcard src/simt/*.cpp))
CU    := $(patsubst test/simt/%.cu,$(B)/%.cu.o,$(wildcard test/simt/*.cu))
TESTS := $(patsubst test/simt/%.c,$(B)/%,$(wildcard test/simt/test_*.c))

test: $(TESTS)
	test/simt/run.sh $(B) $(if $(SAN),$(SAN),plain)

$(B)/%.o: src/simt/%.cpp | $(B)
	g++ $(SIMT_CXX) $(OPT) $(SIMT_INC) $(SAN_RT) -MMD -c $< -o $@
$(B)/%.cu.o: test/simt/%.cu | $(B)
	g++ -x c++ $(SIMT_CXX) $(OPT) $(SIMT_INC) $(SAN_ALL) -MMD -c $< -o $@
$(B)/%.c.o: test/simt/%.c | $(B)
	gcc -std=gnu11 $(OPT) $(SIMT_INC) $(SAN_ALL) -MMD -c $< -o $@
$(B)/libsimt.a: $(RT)
	rm -f $@ && ar rcs $@ $^
# The plain link is a C link; a sanitizer runtime needs the C++ driver.
$(B)/test_%: $(B)/test_%.c.o $(CU) $(B)/libsimt.a
	$(if $(SAN),g++ $(SAN_ALL),gcc) $^ -lcmocka -lpthread -lm -ldl -o $@
$(B):
	mkdir -p $@

nvcc:
	mkdir -p $(B)
	for a in 80 90a; do nvcc -std=c++17 -O3 -gencode arch=compute_$$a,code=sm_$$a -I. -c test/simt/good.cu -o $(B)/good.nv.o || exit 1; done
	for a in 75 80 90a; do nvcc -std=c++17 -O3 -gencode arch=compute_$$a,code=sm_$$a -I. -c test/simt/ring.cu -o $(B)/ring.nv.o || exit 1; done

-include $(wildcard $(B)/*.d)
.PHONY: test nvcc
.SECONDARY:
