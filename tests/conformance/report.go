package main

import "os"

func writeReport(file string, verdicts []*verdict, excluded *exclusions, version, server string) error {
	return os.ErrInvalid
}
