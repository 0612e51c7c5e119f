// The Go side of every benchmark row: peers ROW [ARG…], GOMAXPROCS sets the schedulers.
// Each program warms up, times itself and prints "metric value unit" lines; bench/run reads those.
// Written as Go is written: unbuffered channels, WaitGroup where one waits for many, no pooling.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

var rows = map[string]func(){
	"ring":     ring,
	"pingpong": pingpong,
	"pairs":    pairs,
	"tasks":    tasks,
	"fanout":   fanout,
	"spawn":    spawn,
	"waiting":  waiting,
	"strings":  stringsRow,
	"integers": integers,
	"records":  records,
	"ticker":   ticker,
	"dict":     dict,
	"fair":     fair,
	"ready":    ready,
	"requests": requests,
	"serve":    serve,
	"spread":   spread,
	"select2":  select2,
	"sleepers": sleepers,
}

func main() {
	if len(os.Args) < 2 || rows[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: peers ROW [ARG…]")
		os.Exit(2)
	}
	rows[os.Args[1]]()
}

// arg returns the i-th argument after the row's name.
func arg(i int) int {
	if len(os.Args) <= i+1 {
		fmt.Fprintf(os.Stderr, "peers %s: argument %d is missing\n", os.Args[1], i)
		os.Exit(2)
	}
	n, err := strconv.Atoi(os.Args[i+1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return n
}

func report(metric string, value float64, unit string) {
	fmt.Printf("%s %.6g %s\n", metric, value, unit)
}

func rate(metric string, count int, start time.Time, unit string) {
	report(metric, float64(count)/time.Since(start).Seconds(), unit)
}
