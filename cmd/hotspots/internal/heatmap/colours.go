package heatmap

import (
	"image/color"
	"math"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/density"
	pages "github.com/dynprof/dynprof/internal/table/heat"
)

var (
	white  = color.RGBA{0xff, 0xff, 0xff, 0xff}
	paper  = color.RGBA{0xf7, 0xf7, 0xf5, 0xff}
	ink    = color.RGBA{0x20, 0x20, 0x24, 0xff}
	faint  = color.RGBA{0x70, 0x70, 0x78, 0xff}
	frame  = color.RGBA{0x88, 0x88, 0x90, 0xff}
	accent = color.RGBA{0x1f, 0x6f, 0xd0, 0xff}
	pale   = color.RGBA{0xc4, 0xd6, 0xee, 0xff}
)

// names say what the colours are.
var names = [8]string{
	0:                                    "not touched",
	pages.WasRead:                        "load",
	pages.WasWritten:                     "store",
	pages.WasRead | pages.WasWritten:     "load and store",
	pages.WasExecuted:                    "executed",
	pages.WasExecuted | pages.WasRead:    "executed, load",
	pages.WasExecuted | pages.WasWritten: "executed, store",
	pages.WasExecuted | pages.WasRead | pages.WasWritten: "executed, load and store",
}

// palettes are the colours of what was done: those of Mibu, Takahashi and Sugawara, whose
// pictures these are like, and those of Okabe and Ito, who have them told apart by all.
var palettes = map[bool][8]color.RGBA{
	false: {
		0:                                    {0x00, 0x00, 0x00, 0xff},
		pages.WasRead:                        {0xff, 0x20, 0x20, 0xff},
		pages.WasWritten:                     {0x00, 0xe5, 0xe5, 0xff},
		pages.WasRead | pages.WasWritten:     {0xff, 0xff, 0xff, 0xff},
		pages.WasExecuted:                    {0xf5, 0xd0, 0x20, 0xff},
		pages.WasExecuted | pages.WasRead:    {0xff, 0x90, 0x20, 0xff},
		pages.WasExecuted | pages.WasWritten: {0x60, 0xd0, 0x40, 0xff},
		pages.WasExecuted | pages.WasRead | pages.WasWritten: {0xff, 0xf0, 0xb0, 0xff},
	},
	true: {
		0:                                    {0x00, 0x00, 0x00, 0xff},
		pages.WasRead:                        {0xe6, 0x9f, 0x00, 0xff},
		pages.WasWritten:                     {0x56, 0xb4, 0xe9, 0xff},
		pages.WasRead | pages.WasWritten:     {0xff, 0xff, 0xff, 0xff},
		pages.WasExecuted:                    {0x00, 0x9e, 0x73, 0xff},
		pages.WasExecuted | pages.WasRead:    {0xf0, 0xe4, 0x42, 0xff},
		pages.WasExecuted | pages.WasWritten: {0x00, 0x72, 0xb2, 0xff},
		pages.WasExecuted | pages.WasRead | pages.WasWritten: {0xcc, 0x79, 0xa7, 0xff},
	},
}

func (p *Picture) colour(what pages.What) color.RGBA { return palettes[p.blind][what] }

// shade is the colour of a cell, the fainter the less of it was touched.
func (p *Picture) shade(cell density.Cell) color.RGBA {
	if p.even {
		return p.colour(cell.What())
	}
	return shaded(p.colour(cell.What()), cell.Level())
}

// shaded is a colour as bright as a level is.
func shaded(c color.RGBA, level int) color.RGBA {
	part := density.Brightness(level)
	of := func(v uint8) uint8 { return uint8(math.Round(part * float64(v))) }
	return color.RGBA{of(c.R), of(c.G), of(c.B), c.A}
}
