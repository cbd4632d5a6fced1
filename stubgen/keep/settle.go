package keep

import "github.com/dynprof/dynprof/internal/x86"

// news is what the look at one function tells of another, or of itself.
type news struct {
	of int32
	is x86.RegSet
}

// hear goes through the news of all workers.
func (r *registers) hear(each func(news)) {
	for w := range r.flows {
		for _, n := range r.flows[w].news {
			each(n)
		}
		r.flows[w].news = r.flows[w].news[:0]
	}
}

// refine looks again at functions of which the survey, which knew nothing of
// others, had to guess what they read; and at cold parts, whose depth is that of the jumps
// to them.
func (r *registers) refine() {
	for _, l := range r.edges {
		if l.jump && l.depth > 0 && r.isAnyPart(l.to) {
			r.sum[l.to].depth = l.depth
		}
	}
	asked := make([]bool, len(r.sum)) // by those who tell
	for _, l := range r.edges {
		asked[l.to] = asked[l.to] || r.tells[l.from]
	}
	for _, parts := range []bool{true, false} {
		r.each(r.chosen(func(i int32, m *summary) bool { return m.guessed && asked[i] && r.isAnyPart(i) == parts }), func(f *flow, i int32) {
			is, _ := f.liveIn(false)
			f.news = append(f.news, news{i, is})
		})
		r.hear(func(n news) { r.sum[n.of].liveIn = n.is })
	}
	parts := r.chosen(func(i int32, m *summary) bool { return m.depth > 0 })
	r.each(parts, func(f *flow, i int32) {
		m := r.sum[i]
		f.depths(m.depth)
		f.summarise(&m)
		r.sum[i].stack = m.stack
	})
	for w := range r.flows {
		for _, l := range r.flows[w].edges {
			r.sum[l.to].shifted = r.sum[l.to].shifted || l.shifted
		}
	}
	for _, i := range parts {
		for _, l := range r.into(i) {
			r.sum[l.from].stack = max(r.sum[l.from].stack, r.sum[i].stack)
		}
	}
}

// findTellers finds the functions whose code can tell what has to be kept: they
// call, or jump to, one that leaves something alone.
func (r *registers) findTellers() {
	r.tells = make([]bool, len(r.sum))
	for _, l := range r.edges {
		m := &r.sum[l.to]
		left := !m.unseen && !x86.CallerSaved.Without(m.written).Empty()
		r.tells[l.from] = r.tells[l.from] || left || r.isAnyPart(l.to)
	}
}

// settle is the fixpoint of what is read behind calls. Who can tell is looked at
// again when more is read behind its own returns.
func (r *registers) settle() {
	for i := range r.sum {
		m := &r.sum[i]
		m.exit = m.narrow(x86.Results)
	}
	todo := r.chosen(func(i int32, _ *summary) bool { return r.tells[i] })
	queued := make([]bool, len(r.sum))
	for len(todo) > 0 {
		r.each(todo, func(f *flow, _ int32) { f.look() })
		todo = todo[:0]
		r.hear(func(n news) {
			m := &r.sum[n.of]
			m.relied = m.relied.Or(n.is)
			if is := m.exit.Or(n.is); is != m.exit {
				m.exit = is
				if r.tells[n.of] && !queued[n.of] {
					queued[n.of] = true
					todo = append(todo, n.of)
				}
			}
		})
		for _, i := range todo {
			queued[i] = false
		}
	}
}
