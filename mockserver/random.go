package mockserver

import (
	"encoding/hex"
	"math/rand/v2"
	"sync"

	"github.com/google/uuid"
)

// random draws from a seeded source. Each purpose has a stream of its own, so that one more request
// does not change which ids the orders get or which calls a fault meets.
type random struct {
	mu  sync.Mutex
	src *rand.Rand
}

func newRandom(seed uint64, stream string) *random {
	h := uint64(14695981039346656037) // FNV-1a of the stream's name
	for _, b := range []byte(stream) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return &random{src: rand.New(rand.NewPCG(seed, h))}
}

// Read fills p; it never fails. It makes random an io.Reader for UUIDs.
func (r *random) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 0; i < len(p); {
		for v, n := r.src.Uint64(), 0; n < 8 && i < len(p); n++ {
			p[i] = byte(v)
			v >>= 8
			i++
		}
	}
	return len(p), nil
}

func (r *random) float() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.src.Float64()
}

func (r *random) intn(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.src.IntN(n)
}

func (r *random) uuid() string {
	id, err := uuid.NewRandomFromReader(r)
	if err != nil {
		return "" // not reachable: Read never fails
	}
	return id.String()
}

// hex returns n random bytes as 2n lower-case hex digits.
func (r *random) hex(n int) string {
	var b [32]byte
	_, _ = r.Read(b[:n])
	return hex.EncodeToString(b[:n])
}
