/** How the console is built, and served while it is worked on (CONTRIBUTING.md, "The console"). */
import { defineConfig } from 'vite';
import { finished } from './build/finished.ts';

/** A platform that runs beside the dev server: its pages ask there for all that is not a file of the console. */
const PLATFORM = 'http://127.0.0.1:18080';
const SERVED = ['/api', '/compute', '/ws', '/pod-metrics', '/cluster-info'];

const proxy = Object.fromEntries(SERVED.map((path) => [path, { target: PLATFORM, ws: true }]));

export default defineConfig({
  root: import.meta.dirname,
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../dist/console',
    emptyOutDir: true,
    target: ['chrome125', 'firefox128', 'safari18'],
    // The policy admits fonts and images of the origin only.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // What every first visit loads is one file: a browser takes longer to ask for twenty small ones than to read them.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: 'first', tags: ['$initial'] }] } } },
  },
  server: { host: '127.0.0.1', port: 5173, strictPort: true, proxy },
  plugins: [finished()],
});
