package main

import (
	"os"
	"runtime"
	"runtime/pprof"
)

var keep [][]byte

//go:noinline
func leak(n int) { keep = append(keep, make([]byte, n)) }

//go:noinline
func leakLittle(n int) { keep = append(keep, make([]byte, n)) }

//go:noinline
func churn(n int) byte { b := make([]byte, n); return b[n/2] }

func main() {
	runtime.MemProfileRate = 512
	for i := 0; i < 50; i++ {
		leak(10000)
		churn(70000)
	}
	for i := 0; i < 1000; i++ {
		leakLittle(64)
	}
	runtime.GC()
	text, _ := os.Create(os.Args[2])
	pprof.Lookup("heap").WriteTo(text, 1)
	text.Close()
	f, _ := os.Create(os.Args[1])
	pprof.WriteHeapProfile(f)
	f.Close()
}
