package patcher

import "sync/atomic"

// Nearly all of the work is done twice for each function: it is planned, and written.

// progress is how much of it is done, in bytes of objects' text.
type progress struct {
	all, done atomic.Uint64
	tell      func(percent uint32)
}

// expect adds what an object takes.
func (p *progress) expect(o *object) { p.all.Add(2 * o.textSize()) }

// add says that so many of the functions of an object are planned, or written.
func (p *progress) add(o *object, functions int) {
	const percent = 100
	if n := len(o.plans); p.tell != nil && n > 0 {
		done := p.done.Add(o.textSize() * uint64(functions) / uint64(n))
		p.tell(uint32(min(percent, percent*done/max(1, p.all.Load()))))
	}
}

func (o *object) textSize() (n uint64) {
	for _, m := range o.exec {
		n += m.End - m.Start
	}
	return n
}
