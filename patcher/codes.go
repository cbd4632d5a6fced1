package patcher

import (
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/stubgen/translate"
)

// numberCodes gives each object the numbers of its instructions, one for each byte that is mapped of
// its file, behind those of others (hotspots run --heat=who). One that finds no room has some that
// nobody tells.
func (p *Plan) numberCodes() {
	next := uint64(p.base.codes)
	for _, o := range p.all {
		o.codes, o.toldCodes = translate.Codes{First: layout.MostCodes}, 0
		if len(o.files) == 0 {
			continue
		}
		low, high := o.mapped()
		o.codes.Low = low
		if n := high - low; o.files[0].Start == layout.CodesAt(o.span.Low) && next+n < layout.MostCodes {
			o.codes.First, o.toldCodes = layout.FirstCode+uint32(next), uint32(n)
			next += n
		}
	}
}

// Numbers beyond those that are told have room for an object's.
const _ = uint(translate.MostCodes-layout.MostCodes) + uint(layout.MostCodes-translate.MostCodes)
