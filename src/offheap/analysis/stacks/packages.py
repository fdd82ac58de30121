"""The owner of a Java method by its package: the JDK, a framework that calls applications, or another."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from offheap.recording.model import Frame, Info, Recording

# com.sun.jna is no part of the JDK.
_JDK_CLASS = re.compile(r"(?:java|javax|jdk|sun|com\.sun(?!\.jna\.)|sunw)\.")

# Packages between the application and the allocating code, or between a thread's start and the application:
# they do not help to find the code that forgets to free.  Only packages that call other people's code belong
# here; `blame` recognises other libraries by their place in the stack.
FRAMEWORKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "servers: their event loops and pipelines call the application's handlers",
        (
            "io.netty",
            "org.jboss.netty",
            "org.eclipse.jetty",
            "org.apache.tomcat",
            "org.apache.catalina",
            "org.apache.coyote",
            "org.apache.jasper",
            "org.glassfish",
            "io.undertow",
            "org.xnio",
            "org.wildfly",
            "org.jboss.threads",
            "org.jboss.as",
            "io.vertx",
            "io.quarkus",
            "io.micronaut",
            "io.helidon",
            "io.grpc",
            "com.linecorp.armeria",
            "reactor",
            "rx",
            "io.reactivex",
            "io.smallrye",
            "org.reactivestreams",
            "akka",
            "org.apache.pekko",
            "play",
            "spark",  # the web framework of sparkjava.com; Apache's is org.apache.spark
            "ratpack",
            "jakarta.servlet",
            "org.apache.cxf",
            "org.apache.thrift",
            "org.apache.mina",
            "org.apache.felix",
            "org.eclipse.osgi",
        ),
    ),
    (
        "containers of beans: their proxies call the application's methods",
        (
            "org.springframework",
            "org.aopalliance",
            "org.aspectj",
            "com.google.inject",
            "dagger",
            "org.jboss.weld",
            "jakarta.enterprise",
            "net.bytebuddy",
            "javassist",
            "net.sf.cglib",
        ),
    ),
    (
        "pools: what they lend is asked for by the application",
        (
            "com.zaxxer.hikari",
            "org.apache.commons.pool",
            "org.apache.commons.pool2",
            "org.apache.commons.dbcp",
            "org.apache.commons.dbcp2",
            "com.mchange",
            "com.alibaba.druid",
            "stormpot",
        ),
    ),
    (
        "clients and data layers: they reach a driver, a cache or a codec for the application",
        (
            "org.apache.http",
            "org.apache.hc",
            "org.apache.kafka",
            "org.hibernate",
            "org.jooq",
            "org.mybatis",
            "org.apache.ibatis",
            "com.google.common",
            "com.github.benmanes.caffeine",
            "org.slf4j",
            "ch.qos.logback",
            "org.apache.logging",
            "org.apache.log4j",
        ),
    ),
    (
        "engines and schedulers: they run the application's jobs",
        (
            "org.apache.spark",
            "org.sparkproject",
            "org.apache.flink",
            "org.apache.hadoop",
            "org.apache.beam",
            "org.apache.storm",
            "org.apache.camel",
            "org.quartz",
            "org.jobrunr",
        ),
    ),
    (
        "test runners and build tools: they run the application's tests",
        (
            "org.junit",
            "junit",
            "org.testng",
            "org.spockframework",
            "org.openjdk.jmh",
            "org.gradle",
            "worker.org.gradle",
            "org.apache.maven",
            "org.codehaus.plexus",
            "org.codehaus.classworlds",
            "com.intellij.rt",
        ),
    ),
    (
        "languages: their run times call the application's functions",
        (
            "scala",
            "kotlin",
            "kotlinx",
            "groovy",
            "org.codehaus.groovy",
            "org.apache.groovy",
            "clojure",
            "org.jruby",
            "org.python",
            "org.mozilla.javascript",
            "org.graalvm",
            "com.oracle.truffle",
        ),
    ),
    (
        "tracing: it wraps the application's calls",
        ("io.opentelemetry", "io.micrometer", "io.opentracing", "datadog", "com.newrelic", "brave"),
    ),
)

# Different projects share these first two parts of a package name: the third part identifies them.
_HOSTS = frozenset(
    {
        "com.github",
        "com.gitlab",
        "com.google",
        "com.amazonaws",
        "com.azure",
        "com.facebook",
        "com.microsoft",
        "com.oracle",
        "com.sun",
        "com.twitter",
        "dev.langchain4j",
        "io.github",
        "net.sf",
        "net.sourceforge",
        "net.java",
        "org.apache",
        "org.codehaus",
        "org.eclipse",
        "org.jboss",
        "software.amazon",
    }
)

# Classes that the JVM or a library generates at run time: their names belong to no source code.
_GENERATED = re.compile(
    r"\$\$Lambda|\$Proxy\d*\.|LambdaForm|\$\$(?:Enhancer|FastClass|ByteBuddy|Spring)|CGLIB\$\$"
)
_SYNTHETIC = re.compile(r"\.(?:access\$\d+|lambda\$[^.]*)$")


# Stacks share a few thousand methods: the cache computes each once.
@functools.lru_cache(maxsize=1 << 14)
def is_jdk(name: str) -> bool:
    """Whether a method belongs to the JDK's own packages; `name` as Frame has it."""
    return _JDK_CLASS.match(name) is not None


@functools.lru_cache(maxsize=1 << 14)
def is_generated(name: str) -> bool:
    """Whether the class was generated at run time, such as a lambda's or a proxy's."""
    return "$" in name and _GENERATED.search(name) is not None


def is_synthetic(name: str) -> bool:
    """Whether the compiler made the method: nobody calls it by its name."""
    return "$" in name and (is_generated(name) or _SYNTHETIC.search(name) is not None)


@functools.lru_cache(maxsize=1 << 14)
def framework(name: str) -> str:
    """The packages' common name of a framework's method, else ""."""
    parts = name.split(".")
    for count in range(1, len(parts) - 1):
        package = ".".join(parts[:count])
        if package in _FRAMEWORK_PACKAGES:
            return package
    return ""


@functools.lru_cache(maxsize=1 << 14)
def project(name: str) -> str:
    """The common prefix of the packages of one project or product: `com.acme` of `com.acme.shop.Orders.load`.

    "" for a class without a package.
    """
    parts = name.split(".")[:-2]  # without class and method
    if ".".join(parts[:2]) in _HOSTS:
        return ".".join(parts[:3])
    return ".".join(parts[:2])


@dataclass(frozen=True, slots=True)
class Application:
    """The application, whose code a person can change.

    packages   of the application, `com.acme`
    told       the user gave them; else they are those of the main class, and others may be the application's
    """

    packages: tuple[str, ...] = ()
    told: bool = False
    # The traits of methods that `blame` has computed: stacks share a few thousand.
    traits: dict[tuple[str, bool], Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, info: Info) -> Application:
        if info.application:
            return cls(info.application, True)
        main = info.program
        if not main or main.endswith((".jar", ".war", ".java")) or is_jdk(f"{main}.main"):
            return cls()
        method = f"{main}.main"
        package = project(method)
        return cls((package,)) if package and not framework(method) else cls()

    def has(self, frame: Frame) -> bool:
        """Whether a Java frame is certainly the application's.

        A class without a package is the application's: no library has such a class.
        """
        if frame.kind != "java" or is_generated(frame.name):
            return False
        if self.told or "." in frame.name.rpartition(".")[0]:
            return any(frame.name.startswith(f"{package}.") for package in self.packages)
        return True

    def may_have(self, frame: Frame) -> bool:
        """Whether a Java frame may be the application's: it has no other known owner."""
        if frame.kind != "java" or is_generated(frame.name):
            return False
        return self.has(frame) or not (self.told or is_jdk(frame.name) or framework(frame.name))


def with_application(recording: Recording, packages: Sequence[str]) -> Recording:
    """The recording with the application's packages as the user gives them; none: the user gave none."""
    if not packages:
        return recording
    return replace(recording, info=replace(recording.info, application=tuple(packages)))


_FRAMEWORK_PACKAGES = frozenset(package for _, packages in FRAMEWORKS for package in packages)
