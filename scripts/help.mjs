// npm run help: the commands, in the order in which people need them.
process.stdout.write(`Cocoon: MicroVMs as Kubernetes pods

  npm run up             bring the platform up on this machine (npm run up -- --help)
  npm run status         what runs, since when, with how much memory
  npm run logs -- PART   the log of a part; -f follows
  npm run doctor         what is wrong with this machine, and how to fix it
  npm run down           stop everything; -- --wipe also removes its data
  npm run cocoonctl -- …  the command-line tool itself

  npm test               everything: check, unit, integration, end-to-end (small counts)
  npm run test:full      the same with the full counts
  npm run check          format, lint, types, unused code, generated files, layers, unit tests
  npm run test:unit | test:int | test:e2e
  npm run bench -- NAME  a benchmark; without a name, the list
  npm run chaos          random faults on a platform of its own (-- --minutes N, --history list)

  npm run fmt            format the sources
  npm run lint           lint the sources
  npm run types          type-check
  npm run generate       write the generated files again
  npm run build          release bundles into dist/
`);
