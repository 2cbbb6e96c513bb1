package scripting

// SetPace sets f, which returns the length of each slice and the number of instructions between two readings of the
// clock.
func (s *Scripts) SetPace(f func() (nanos int64, budget int)) { s.pace = f }
