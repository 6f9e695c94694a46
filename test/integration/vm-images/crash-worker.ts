/** Pulls the same file again and again until it is killed. */
import { openImageLibrary } from "@cocoon/images";

const [directory = "", file = ""] = process.argv.slice(2);
const library = openImageLibrary({ directory });
const signal = new AbortController().signal;
console.log("begins");
for (;;) await library.pull(file, { signal, force: true });
