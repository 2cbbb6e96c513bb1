#include "textflag.h"

// FOLD moves a lane forward and adds the sixteen bytes there: lane = lane.lo*K.lo + lane.hi*K.hi + bytes.
#define FOLD(K, lane, spare, bytes) \
	MOVOA lane, spare         \
	PCLMULQDQ $0x00, K, lane  \
	PCLMULQDQ $0x11, K, spare \
	PXOR spare, lane          \
	PXOR bytes, lane

// func fold(crc uint64, p *byte, blocks int, constants *[4]uint64) (lo, hi uint64)
TEXT ·fold(SB), NOSPLIT, $0-48
	MOVQ  crc+0(FP), AX
	MOVQ  p+8(FP), SI
	MOVQ  blocks+16(FP), CX
	MOVQ  constants+24(FP), DX
	MOVOU 0(DX), X8          // D = 512
	MOVOU 16(DX), X9         // D = 128
	MOVOU 0(SI), X0
	MOVOU 16(SI), X1
	MOVOU 32(SI), X2
	MOVOU 48(SI), X3
	MOVQ  AX, X4
	PXOR  X4, X0
	ADDQ  $64, SI
	DECQ  CX
	JZ    join

block:
	MOVOU 0(SI), X10
	MOVOU 16(SI), X11
	MOVOU 32(SI), X12
	MOVOU 48(SI), X13
	FOLD(X8, X0, X4, X10)
	FOLD(X8, X1, X5, X11)
	FOLD(X8, X2, X6, X12)
	FOLD(X8, X3, X7, X13)
	ADDQ  $64, SI
	DECQ  CX
	JNZ   block

join:
	FOLD(X9, X0, X4, X1)
	FOLD(X9, X0, X4, X2)
	FOLD(X9, X0, X4, X3)
	MOVQ   X0, AX
	PSRLDQ $8, X0
	MOVQ   X0, BX
	MOVQ   AX, lo+32(FP)
	MOVQ   BX, hi+40(FP)
	RET

// func hasCarrylessMultiply() bool
TEXT ·hasCarrylessMultiply(SB), NOSPLIT, $0-1
	MOVL $1, AX
	XORL CX, CX
	CPUID
	SHRL $1, CX
	ANDL $1, CX
	MOVB CX, ret+0(FP)
	RET
