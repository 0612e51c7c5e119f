package main

import (
	"strings"
	"time"
)

// deliver sends what make returns count times to a goroutine that only keeps the last one.
func deliver[T any](count int, unit string, make_ func() T) {
	c, done := make(chan T), make(chan T)
	go func() {
		var last T
		for v := range c {
			last = v
		}
		done <- last
	}()
	for i := 0; i < count/10+1; i++ {
		c <- make_()
	}
	start := time.Now()
	for i := 0; i < count; i++ {
		c <- make_()
	}
	close(c)
	<-done
	rate("transfers", count, start, unit)
}

// strings SIZE COUNT: Go passes a reference, whatever the size.
func stringsRow() {
	s := strings.Repeat("x", arg(1))
	deliver(arg(2), "messages/s", func() string { return s })
}

// integers N COUNT: a slice of N integers, copied so that the two sides share nothing.
func integers() {
	list := make([]int, arg(1))
	for i := range list {
		list[i] = i + 1
	}
	deliver(arg(2), "transfers/s", func() []int { return append([]int(nil), list...) })
}

type point struct{ X, Y float64 }
type record struct {
	ID    int
	Name  string
	Place point
	Tags  []string
}

// records N COUNT: N nested records, copied deeply.
func records() {
	list := make([]record, arg(1))
	for i := range list {
		list[i] = record{i + 1, "record", point{float64(i) + 0.5, float64(i) - 0.5}, []string{"red", "green", "blue"}}
	}
	deliver(arg(2), "transfers/s", func() []record {
		copied := make([]record, len(list))
		for i, r := range list {
			r.Tags = append([]string(nil), r.Tags...)
			copied[i] = r
		}
		return copied
	})
}
