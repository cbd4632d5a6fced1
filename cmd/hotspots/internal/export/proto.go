package export

import (
	"compress/gzip"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of profile.proto (github.com/google/pprof, proto/profile.proto), by message.
const (
	profileSampleType  = 1
	profileSample      = 2
	profileMapping     = 3
	profileLocation    = 4
	profileFunction    = 5
	profileString      = 6
	profileTimeNanos   = 9
	profileDuration    = 10 // ns
	profilePeriodType  = 11
	profilePeriod      = 12
	profileComment     = 13
	profileDefaultType = 14

	typeName = 1
	typeUnit = 2

	sampleLocations = 1
	sampleValues    = 2

	mappingID           = 1
	mappingStart        = 2
	mappingLimit        = 3
	mappingOffset       = 4
	mappingFile         = 5
	mappingBuildID      = 6
	mappingHasFunctions = 7

	locationID      = 1
	locationMapping = 2
	locationAddress = 3
	locationLine    = 4
	lineFunction    = 1

	functionID         = 1
	functionName       = 2
	functionSystemName = 3
)

// message is the fields of one, encoded.
type message []byte

func (m message) number(field protowire.Number, v uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), v)
}

func (m message) bytes(field protowire.Number, b []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), b)
}

// numbers adds a repeated field.
func (m message) numbers(field protowire.Number, list ...uint64) message {
	var packed []byte
	for _, v := range list {
		packed = protowire.AppendVarint(packed, v)
	}
	return m.bytes(field, packed)
}

// proto writes a profile.proto, field by field, so that nothing but its strings is kept.
type proto struct {
	out     *gzip.Writer // keeps the first error until it is closed
	strings map[string]uint64
}

func newProto(w io.Writer) *proto {
	p := &proto{gzip.NewWriter(w), map[string]uint64{}}
	p.text("") // number 0, as the format has it
	return p
}

func (p *proto) write(m message) { p.out.Write(m) }

// add writes a message of the profile.
func (p *proto) add(field protowire.Number, m message) { p.write(message(nil).bytes(field, m)) }

// text is the number of a string, which stands in the profile from then on.
func (p *proto) text(s string) uint64 {
	n, ok := p.strings[s]
	if !ok {
		n = uint64(len(p.strings))
		p.strings[s] = n
		p.add(profileString, message(s))
	}
	return n
}
