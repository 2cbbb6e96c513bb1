package scripting

// SetPace has f choose how long each slice is, and how many instructions run between two looks at the clock.
func (s *Scripts) SetPace(f func() (nanos int64, budget int)) { s.pace = f }
