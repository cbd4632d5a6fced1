package growth

import "math"

// scale is where sizes and counts are in a picture whose axes are logarithmic, from 0 to 1.
type scale struct{ left, right, bottom, top float64 }

// scale is one that has room for all counts of functions but 0.
func (g *Growth) scale(functions ...*Function) scale {
	s := scale{math.Log(g.Sizes[0]), math.Log(g.Sizes[len(g.Sizes)-1]), math.Inf(1), math.Inf(-1)}
	s.right = max(s.right, s.left+1e-9) // sizes may be too near to tell
	for _, f := range functions {
		for _, n := range f.Counts {
			if n > 0 {
				s.bottom, s.top = min(s.bottom, math.Log(float64(n))), max(s.top, math.Log(float64(n)))
			}
		}
	}
	if s.top-s.bottom < 1 { // what hardly grows is a level line
		middle := (s.top + s.bottom) / 2
		s.bottom, s.top = middle-1, middle+1
	}
	return s
}

func (s *scale) x(size float64) float64 { return (math.Log(size) - s.left) / (s.right - s.left) }

// sizeAt is the size at x.
func (s *scale) sizeAt(x float64) float64 { return math.Exp(s.left + x*(s.right-s.left)) }

// y is where a count is; false if it is not in the picture.
func (s *scale) y(count float64) (float64, bool) {
	y := (math.Log(count) - s.bottom) / (s.top - s.bottom)
	const edge = 0.02
	return min(max(y, 0), 1), y >= -edge && y <= 1+edge
}
