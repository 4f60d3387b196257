# The registry of components/registry from Debian's package, for whoever has no mirror of registry:2.
#   docker build -f deploy/registry.Dockerfile -t registry.example.com/troupe/registry:1 deploy
# BASE_IMAGE names another Debian or Ubuntu, such as a mirror's.
ARG BASE_IMAGE=debian:bookworm-slim
FROM ${BASE_IMAGE}
RUN apt-get update \
  && apt-get install -y --no-install-recommends docker-registry ca-certificates \
  && rm -rf /var/lib/apt/lists/*
USER 10001:10001
ENTRYPOINT ["/usr/bin/docker-registry"]
CMD ["serve", "/etc/troupe-registry/config.yml"]
