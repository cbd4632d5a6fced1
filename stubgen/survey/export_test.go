package survey

// MostEntries is for tests.
const MostEntries = mostEntries

// EntriesRead is how many entries of jump tables were read.
func (s *Survey) EntriesRead() int64 { return s.entriesRead.Load() }
