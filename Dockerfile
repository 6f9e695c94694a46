# One image with every program of Cocoon, as one executable with Node inside, in an image without a shell:
#
#   docker build --build-arg REVISION="$(git rev-parse --short=12 HEAD)" -t ghcr.io/cocoonstack/cocoon:0.1.0 .
#
# Run a program by its name: docker run ghcr.io/cocoonstack/cocoon:0.1.0 cocoon-operator --help
FROM docker.io/library/node:26-bookworm-slim AS build
WORKDIR /src
COPY package.json package-lock.json .npmrc LICENSE tsconfig.json ./
COPY packages packages
COPY scripts scripts
COPY deploy deploy
COPY packaging packaging
RUN npm ci --ignore-scripts --no-audit --no-fund
ARG REVISION=unknown
RUN COCOON_REVISION="$REVISION" node scripts/build.ts --only executable --trees --out out
RUN mkdir -p image/usr/local && cp -a out/cocoon-*-linux-*/. image/usr/local/

# libc and libstdc++, certificates of the public authorities, a user that is not root; nothing else.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/image/ /
# Threads share two heaps of the C library: each of its own would keep what it once needed.
ENV PATH=/usr/local/bin:/usr/bin:/bin MALLOC_ARENA_MAX=2
USER 65532:65532
CMD ["cocoonctl", "--help"]
