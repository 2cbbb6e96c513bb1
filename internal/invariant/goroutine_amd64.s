//go:build invariants || race

#include "textflag.h"

// func running() uintptr
TEXT ·running(SB), NOSPLIT, $0-8
	MOVQ (TLS), AX
	MOVQ AX, ret+0(FP)
	RET
