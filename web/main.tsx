/** The console begins here. */
import './styles/index.css';
import { render } from 'preact';
import { App } from './app.tsx';
import { startClock } from './core/clock.ts';
import { startKeys } from './core/keys.ts';
import { startRouter } from './core/router.ts';
import { startSession } from './core/session.ts';
import { startTheme } from './core/theme.ts';
import { startFacts } from './live/facts.ts';
import { startLive } from './live/live.ts';

startTheme();
startClock();
startRouter();
startKeys();
startSession();
startLive();
startFacts();

const root = document.getElementById('app');
if (root !== null) render(<App />, root);
