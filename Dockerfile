# The image of lodgekvd, with lodgectl in it:
#
#   docker build -t lodgekv .
#   docker run --read-only -p 127.0.0.1:7411:7411 -v lodgekv:/var/lib/lodgekv lodgekv \
#       --pool /var/lib/lodgekv/lodgekv.pool --listen 0.0.0.0:7411 --allow-plaintext
#
# Both stages use the same release of Debian, so that the libraries match.
ARG BASE=docker.io/library/debian:12-slim

FROM ${BASE} AS build
# A folder of the context with lodgekvd and lodgectl ready made, instead of compiling them.
ARG PREBUILT=""
# The commit that --version shows if the build context has no git.
ARG REVISION=unknown
WORKDIR /src
COPY scripts/install_packages scripts/
RUN if [ -z "$PREBUILT" ]; then scripts/install_packages --build; fi
COPY . .
RUN mkdir /programs && \
    if [ -z "$PREBUILT" ]; then \
      cmake --preset release -DLODGEKV_BUILD_TESTS=OFF -DLODGEKV_COMMIT="$REVISION" && \
      cmake --build build/release --target lodgekvd lodgectl && \
      strip -o /programs/lodgekvd build/release/bin/lodgekvd && \
      strip -o /programs/lodgectl build/release/bin/lodgectl; \
    else \
      cp "$PREBUILT/lodgekvd" "$PREBUILT/lodgectl" /programs/; \
    fi

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="LodgeKV" \
      org.opencontainers.image.description="A key-value server for persistent memory" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="docker.io/library/debian:12-slim"
RUN apt-get update -qq && \
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      libabsl20220623 libfmt9 libgrpc29 libgrpc++1.51 libisal2 libjemalloc2 libmicrohttpd12 \
      libpmem1 libpmemobj1 libprometheus-cpp-core1.0 libprotobuf32 libspdlog1.10 libssl3 \
      libsystemd0 liburcu8 libyaml-cpp0.7 && \
    rm -rf /var/lib/apt/lists/* && \
    groupadd --gid 10001 lodgekv && \
    useradd --uid 10001 --gid lodgekv --no-create-home --no-log-init \
      --home-dir /var/lib/lodgekv --shell /usr/sbin/nologin lodgekv && \
    install -d -m 700 -o lodgekv -g lodgekv /var/lib/lodgekv
COPY --from=build /programs/lodgekvd /programs/lodgectl /usr/bin/
# If a library is missing from the list above, the build fails here.
RUN lodgekvd --version && lodgectl --help >/dev/null
USER 10001:10001
VOLUME /var/lib/lodgekv
WORKDIR /var/lib/lodgekv
# The data, the metrics, health for probes; the operator's port is the container's own.
EXPOSE 7411 7413 7414
# It also answers while it recovers, so that recovery is not interrupted. A server with TLS needs
# LODGEKV_TLS_CA and LODGEKV_TLS_SERVER_NAME here, with mutual TLS LODGEKV_TLS_CERT and
# LODGEKV_TLS_KEY as well; one with another admin_listen LODGEKV_ADMIN.
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s --retries=3 \
  CMD ["lodgectl", "--timeout", "5s", "status"]
ENTRYPOINT ["lodgekvd"]
CMD ["--pool", "/var/lib/lodgekv/lodgekv.pool"]
