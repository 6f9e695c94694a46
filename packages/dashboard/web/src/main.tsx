/** The entry of the page. */
import { createRoot } from "react-dom/client";
import { App } from "./app.tsx";
import { restoreTheme } from "./parts/theme.ts";
// What is loaded on demand is script only; its styles are few and come with the page.
import "@xterm/xterm/css/xterm.css";
import "uplot/dist/uPlot.min.css";
import "./style.css";

restoreTheme();

const place = document.querySelector("#page");
if (place) createRoot(place).render(<App />);
