package dashboard

import "spindle/internal/config"

// Manual returns the text of the manual page about a dashboard's settings.
//
// Seam: tools/manual writes the manual page from it.
func Manual() (intro string, chapters []config.Chapter, err error) {
	registry, err := new(settings).registry()
	if err != nil {
		return "", nil, err
	}
	return config.Chapters(registry, page)
}
