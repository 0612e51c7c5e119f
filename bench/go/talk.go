package main

import (
	"sync"
	"time"
)

// node passes a token on until it is used up; it ends when its inbox is closed.
func node(in <-chan int, next chan<- int, done chan<- bool) {
	for v := range in {
		if v > 0 {
			next <- v - 1
		} else {
			done <- true
		}
	}
}

// ring SIZE TOKENS HOPS: every token does HOPS/TOKENS hops, all at the same time.
func ring() {
	size, tokens, hops := arg(1), arg(2), arg(3)
	inbox := make([]chan int, size)
	for i := range inbox {
		inbox[i] = make(chan int)
	}
	done := make(chan bool, tokens) // room for all: a node never waits to report
	for i := range inbox {
		go node(inbox[i], inbox[(i+1)%size], done)
	}
	run := func(each int) {
		for t := 0; t < tokens; t++ {
			inbox[t*size/tokens] <- each
		}
		for t := 0; t < tokens; t++ {
			<-done
		}
	}
	run(2*size/tokens + 1)
	start := time.Now()
	run(hops / tokens)
	rate("hops", hops/tokens*tokens, start, "messages/s")
}

func echo(in <-chan int, out chan<- int) {
	for v := range in {
		out <- v
	}
}

// volley plays n round trips against an echo of its own.
func volley(n int, ready *sync.WaitGroup, start <-chan bool, over *sync.WaitGroup) {
	ping, pong := make(chan int), make(chan int)
	go echo(ping, pong)
	trip := func(n int) {
		for i := 0; i < n; i++ {
			ping <- i
			<-pong
		}
	}
	trip(1000)
	ready.Done()
	<-start
	trip(n)
	close(ping)
	over.Done()
}

func volleys(count, n int) {
	var ready, over sync.WaitGroup
	ready.Add(count)
	over.Add(count)
	start := make(chan bool)
	for i := 0; i < count; i++ {
		go volley(n, &ready, start, &over)
	}
	ready.Wait()
	t := time.Now()
	close(start)
	over.Wait()
	rate("trips", count*n, t, "round trips/s")
}

// pingpong TRIPS: one pair.
func pingpong() { volleys(1, arg(1)) }

// pairs PAIRS TRIPS: independent pairs, TRIPS in all.
func pairs() { volleys(arg(1), arg(2)/arg(1)) }

// requests PROCESSES COUNT: one asks each of the goroutines in turn, and waits for its answer. Every goroutine has a channel of its own.
func requests() {
	many, count := arg(1), arg(2)
	questions, answers := make([]chan int, many), make(chan int)
	for i := range questions {
		questions[i] = make(chan int)
		go func(in <-chan int) {
			for n := range in {
				answers <- n + 1
			}
		}(questions[i])
	}
	ask := func(total int) {
		for i := 0; i < total; i++ {
			questions[i%many] <- i
			<-answers
		}
	}
	ask(many)
	start := time.Now()
	ask(count)
	rate("requests", count, start, "requests/s")
}
