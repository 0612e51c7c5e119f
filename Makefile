# The front door. CMake does the work, in build/<config>; tools/ holds the steps.
#
#   make                 builds bin/mare (CC=clang: by another compiler)
#   make fast            the same, faster: Lua's own sources and mare in one, optimised by what programs do (2 minutes; gcc)
#   make demo            the parallel text search, on this machine's own files
#   make test            everything: lint, then the suite plain, under AddressSanitizer + UBSan, under ThreadSanitizer
#   make test T=channel  only the tests whose name contains "channel"
#   make test C=plain    only one configuration (plain, asan, tsan)
#   make soak            searches for what `make test` has no time for (M=60 minutes; T=name)
#   make lab             the memory laboratory, for `mare lab`: a Python environment of its own and its native parts
#   make bench           the measurements beside their peers (B=ring: only one; B=counts: instructions and cache lines beside their limits)
#   make install         into PREFIX=/usr/local, below DESTDIR if that is set: the bin/mare that was built last; `make uninstall` with the same removes it
#   make rock            mare-scm-1.src.rock, for `luarocks --lua-version 5.4 install` (TAG=v0.2.0: the rock of that version)
#   make deb             build/mare_*.deb, a package for Debian and Ubuntu; `make deb-check` tries it in a fresh Debian (root, network)
#   make site            the documentation as a site with a search, build/site/html (the first time from PyPI)
#   make lint | clean | help
#
# Whatever is missing is installed first (Debian, Ubuntu) or named.

PREFIX ?= /usr/local
T ?=
C ?= plain asan tsan
B ?=
M ?= 60
TAG ?=

.PHONY: build fast demo lab test soak bench lint install uninstall rock deb deb-check site clean help

build:
	@tools/setup build
	@tools/build plain

fast:
	@tools/setup fast
	@if tools/fetch-lua; then tools/build fast; else echo "so bin/mare is made with the packaged library"; tools/build plain; fi

demo: build
	@bin/mare run examples/demo.lua

lab: build
	@tools/setup lab
	@tools/build-lab

test:
	@tools/setup test
	@tools/setup lab
	@tools/test -c "$(C)" -t "$(T)"

soak:
	@tools/setup test
	@tools/setup lab
	@tools/setup fuzz
	@tools/soak -m "$(M)" -t "$(T)"

bench:
	@tools/setup bench
	@tools/build plain
	@if [ "$(B)" = counts ]; then bench/count --judge; else bench/run $(if $(B),--only $(B)); fi
	@$(if $(B),:,bench/heap/run -n 5 -o bench/data)
	@$(if $(B),:,bench/seeds/run)
	@$(if $(B),:,bench/orb/run)
	@$(if $(B),:,bench/orb/seeds)

lint:
	@tools/setup test
	@tools/lint

install:
	@tools/setup build
	@last=$$(readlink bin/mare || true); tools/build plain && case $$last in */fast/*) tools/build fast ;; esac
	@tools/install "$(PREFIX)"

uninstall:
	@tools/install --undo "$(PREFIX)"

rock:
	@tools/rock $(TAG)

deb:
	@tools/setup deb
	@tools/deb

deb-check:
	@tools/setup deb
	@tools/deb-check

site:
	@tools/build-site

clean:
	@rm -rf build bin

help:
	@sed -n 's/^# \{0,1\}//p' Makefile
