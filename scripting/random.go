package scripting

// random48 is the generator of drand48. It gives scripts the same numbers as in Redis.
//
//	x' = x × 0x5DEECE66D + 0xB mod 2^48; a number is the top 31 bits of x'
//
// Source: POSIX, drand48.
type random48 uint64

// firstSeed is the generator's state before a seed is set.
const firstSeed random48 = 0x1234ABCD330E

func (x *random48) seed(n int32) { *x = random48(uint64(uint32(n))<<16 | 0x330E) }

// next returns the next number, in [0, 1).
func (x *random48) next() float64 {
	const most = 1<<31 - 1
	*x = (*x*0x5DEECE66D + 0xB) & (1<<48 - 1)
	return float64(int32(*x>>17)%most) / most
}
