package scripting

// SetPace sets f, which gives the length of each slice and the number of instructions between two looks at the clock.
func (s *Scripts) SetPace(f func() (nanos int64, budget int)) { s.pace = f }
