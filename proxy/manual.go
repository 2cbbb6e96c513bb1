package proxy

import (
	"spindle/internal/config"
	"spindle/internal/setting"
)

// Manual returns the page of a proxy's settings.
//
// Seam: tools/manual writes the manual page of it.
func Manual() (intro string, chapters []config.Chapter, err error) {
	registry, err := setting.NewRegistry((&host{}).rows())
	if err != nil {
		return "", nil, err
	}
	return config.Chapters(registry, page)
}
