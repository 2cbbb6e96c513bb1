package report

import (
	"image/color"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// A Line is one curve, or the bars of one colour in all groups.
type Line struct {
	Name string
	X, Y []float64 // bars leave X out
}

// These are the colours of Okabe and Ito, which colour-blind readers can distinguish. The first is the colour of Redis.
var colours = []color.Color{
	color.RGBA{0x99, 0x99, 0x99, 0xff}, color.RGBA{0x00, 0x72, 0xb2, 0xff}, color.RGBA{0xd5, 0x5e, 0x00, 0xff},
	color.RGBA{0x00, 0x9e, 0x73, 0xff}, color.RGBA{0xcc, 0x79, 0xa7, 0xff}, color.RGBA{0xe6, 0x9f, 0x00, 0xff},
	color.RGBA{0x56, 0xb4, 0xe9, 0xff},
}

const (
	plotWidth  = 9 * vg.Inch
	plotHeight = 4 * vg.Inch
)

// Bars draws groups of bars into a file (.svg or .png). Each group has one bar per line.
func Bars(file, title, yLabel string, groups []string, lines []Line) error {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text, p.Y.Min = title, yLabel, 0
	width := vg.Points(min(18, 420/float64(max(1, len(groups)*len(lines)))))
	for i, line := range lines {
		values := make(plotter.Values, len(line.Y))
		for j, v := range line.Y {
			if values[j] = v; math.IsNaN(v) || math.IsInf(v, 0) {
				values[j] = 0
			}
		}
		bars, err := plotter.NewBarChart(values, width)
		if err != nil {
			return err
		}
		bars.Color, bars.LineStyle.Width = colours[i%len(colours)], 0
		bars.Offset = width * vg.Length(float64(i)-float64(len(lines)-1)/2)
		p.Add(bars)
		p.Legend.Add(line.Name, bars)
	}
	p.Legend.Top = true
	p.NominalX(groups...)
	p.X.Min, p.X.Max = -0.5, float64(len(groups))-0.5
	p.Y.Max *= 1 + 0.07*float64(len(lines)) // room for the legend
	return save(p, file)
}

// Lines draws curves. If log is true, the y axis is logarithmic, and values that are not positive are left out.
func Lines(file, title, xLabel, yLabel string, log bool, lines []Line) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, xLabel, yLabel
	drawn := 0
	for i, line := range lines {
		var points plotter.XYs
		for j := range min(len(line.X), len(line.Y)) {
			if x, y := line.X[j], line.Y[j]; !math.IsNaN(y) && !math.IsInf(y, 0) && (y > 0 || !log) {
				points = append(points, plotter.XY{X: x, Y: y})
			}
		}
		if len(points) == 0 {
			continue
		}
		curve, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		curve.Color, curve.Width = colours[i%len(colours)], vg.Points(1.5)
		p.Add(curve)
		p.Legend.Add(line.Name, curve)
		drawn++
	}
	if log && drawn > 0 {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		if p.Y.Min == p.Y.Max {
			p.Y.Max = p.Y.Min * 10
		}
	}
	p.Add(plotter.NewGrid())
	p.Legend.Top = true
	return save(p, file)
}

func save(p *plot.Plot, file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return p.Save(plotWidth, plotHeight, file)
}
