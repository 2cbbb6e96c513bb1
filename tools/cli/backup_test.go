package cli

import "testing"

// TestKeepDays: so many days that they mean "for ever" keep backups, too.
func TestKeepDays(t *testing.T) {
	for _, days := range []int{1, 365, 106751, 106752, 365000, 1000000, 1 << 62} {
		if kept := lasting(days); kept <= 0 || days < 100000 && int(kept.Hours()) != 24*days {
			t.Errorf("%d days are %s", days, kept)
		}
	}
}
