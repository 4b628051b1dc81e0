//go:build !noasm

package cpu

// The arguments of the generated microkernels, which read them by the names of the fields.

type gemmArgs struct {
	dst       *float32
	stride    int
	w         *byte
	wBytes    int
	q         *int8
	d, s      *float32
	h         *int16
	tokens, n int
}

type packArgs struct {
	w             *int8
	columns       int
	ds, mins      *float32
	src           *byte
	stride        int
	prefetch      *byte
	prefetchBytes int
}

type tileArgs struct {
	acc           *float32
	accBytes      int
	w             *int8
	wBytes        int
	ds            *float32
	dsBytes       int
	mins          *float32
	minsBytes     int
	q             *int8
	d, s          *float32
	h             *int16
	tokens, n     int
	prefetch      *byte
	prefetchBytes int
}

type floatArgs struct {
	dst          *float32
	rows, stride int
	w            *byte
	rowBytes     int
	x            *float32
	n            int
	prefetch     int
	add          bool
}
