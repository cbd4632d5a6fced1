package elfscan

import "strings"

// cie is a common information entry: what its FDEs share.
type cie struct {
	at         uint64 // its offset in .eh_frame
	ok         bool
	augmented  bool // its FDEs have augmentation data
	signal     bool
	pointerEnc uint8 // of addresses
	lsdaEnc    uint8
	dataAlign  int64
	start      cfa
}

// parseCIE reads a CIE behind its id. One that is not understood has ok
// false: its FDEs cannot be read.
func parseCIE(at uint64, c *cursor) cie {
	e := cie{at: at, lsdaEnc: peOmit}
	version := c.u8()
	augmentation := c.cstring()
	if augmentation == "eh" { // gcc 2: a pointer to exception data
		c.u64()
		augmentation = ""
	}
	if version == 4 { // sizes of addresses and of segment selectors
		c.take(2)
	}
	c.uleb() // code alignment
	e.dataAlign = c.sleb()
	if version == 1 { // the register of the return address
		c.u8()
	} else {
		c.uleb()
	}
	known := augmentation == ""
	if letters, ok := strings.CutPrefix(augmentation, "z"); ok {
		e.augmented = true
		data := c.sub(c.uleb())
		known = e.augment(letters, &data)
	}
	e.ok = known && !c.bad && (version == 1 || version == 3 || version == 4)
	e.start = cfa{}.run(c, e.dataAlign)
	return e
}

// augment reads augmentation data and reports whether the encoding of
// addresses is known then. A letter that we do not know ends what can be read.
func (e *cie) augment(letters string, c *cursor) bool {
	for i, letter := range letters {
		switch letter {
		case 'R':
			e.pointerEnc = c.u8()
		case 'L':
			e.lsdaEnc = c.u8()
		case 'P': // personality routine
			enc := c.u8()
			if enc&peApply == peAligned {
				return !strings.Contains(letters[i:], "R")
			}
			c.number(enc)
		case 'S':
			e.signal = true
		case 'B', 'G': // AArch64: pointer authentication, memory tags
		default:
			return !strings.Contains(letters[i:], "R")
		}
	}
	return !c.bad
}
