package geo

import (
	"math"
	"testing"
)

func TestAppendDistance(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0.0000", 1: "1.0000", 0.0001: "0.0001", 0.00004: "0.0000", 6.0642951598391699e-05: "0.0001",
		166274.15156960033: "166274.1516",
		0.00005:            "0.0000", 0.03125: "0.0312", 0.09375: "0.0938", 12345678.9: "12345678.9000",
		20015086.7960205: "20015086.7960",
		math.Inf(1):      "-922337203685477.5808",
	} {
		if got := string(appendDistance(nil, x)); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
	if got := string(appendDistance(nil, math.NaN())); got != "-922337203685477.5808" {
		t.Errorf("NaN: %s", got)
	}
}

func TestAppendDegrees(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 1: "1", -180: "-180", 100: "100", 13.36138933897018433: "13.36138933897018433", -0.5: "-0.5",
		1e-17: "0.00000000000000001", 4e-18: "0", -4e-18: "0",
		-85.05112878: "-85.0511287799999991",
	} {
		if got := string(appendDegrees([]byte("10"), x)); got != "10"+want {
			t.Errorf("%v: %s, want 10%s", x, got, want)
		}
	}
}
