/** Dialogs: the browser's own, which keeps the focus and closes with Escape. The focus goes back to what opened it. */
import './dialog.css';
import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Deed } from '../core/deed.ts';
import { t } from '../text/text.ts';
import { Button } from './button.tsx';
import { TextField } from './field.tsx';
import { Failure } from './note.tsx';

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  /** Escape does not close it. */
  readonly mustStay?: boolean;
  readonly children: ComponentChildren;
}

/** Open for as long as it is there. */
export function Dialog({ title, onClose, mustStay = false, children }: DialogProps) {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const dialog = box.current;
    const opener = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      // It has left the page before, so the browser does not.
      giveFocusBack(opener);
    };
  }, []);
  return (
    <dialog
      class="box"
      ref={box}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        if (!mustStay) onClose();
      }}
    >
      <div class="body">
        <h2 id={id}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

/** To what opened it, or to the heading where that has gone with what was done. Not if it is elsewhere already. */
function giveFocusBack(opener: Element | null): void {
  if (document.activeElement !== null && document.activeElement !== document.body) return;
  const isThere = opener instanceof HTMLElement && opener.isConnected && opener !== document.body;
  const to = isThere ? opener : document.querySelector<HTMLElement>('main h1');
  to?.focus({ preventScroll: true });
}

interface ConfirmProps {
  readonly title: string;
  readonly children: ComponentChildren;
  /** The verb on the button. */
  readonly verb: string;
  readonly deed: Deed<[]>;
  /** Why it cannot be done yet. */
  readonly reason?: string | undefined;
  readonly onClose: () => void;
}

/** Asks before something that cannot be undone. The focus is on what does no harm. */
export function Confirm({ title, children, verb, deed, reason, onClose }: ConfirmProps) {
  const run = async () => {
    if (await deed.run()) onClose();
  };
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      <Failure error={deed.error} />
      <AnswerButtons verb={verb} deed={deed} onDo={run} reason={reason} onClose={onClose} />
    </Dialog>
  );
}

interface AnswerButtonsProps extends Pick<ConfirmProps, 'verb' | 'deed' | 'reason' | 'onClose'> {
  readonly kind?: 'main' | 'danger';
  /** Without it the deed is done, and the dialog stays. */
  readonly onDo?: () => void;
}

/** The ends of a question: the focus is on the one that does nothing. */
export function AnswerButtons({ verb, deed, kind = 'danger', reason, onDo, onClose }: AnswerButtonsProps) {
  return (
    <div class="ends">
      <Button onClick={onClose} autofocus>
        {t.dialog.cancel}
      </Button>
      <Button kind={kind} onClick={onDo ?? (() => void deed.run())} busy={deed.isBusy} reason={reason}>
        {verb}
      </Button>
    </div>
  );
}

interface ConfirmByNameProps extends Omit<ConfirmProps, 'reason'> {
  readonly name: string;
  /** What goes with it. */
  readonly lead: string;
}

/** Asks before something goes with all its data: its name has to be typed. */
export function ConfirmByName({ name, lead, children, ...props }: ConfirmByNameProps) {
  const [typed, setTyped] = useState('');
  return (
    <Confirm {...props} reason={typed === name ? undefined : t.container.typeName(name)}>
      <p class="dim">{lead}</p>
      <TextField
        label={t.container.typeName(name)}
        value={typed}
        onInput={setTyped}
        attributes={{ autocomplete: 'off' }}
      />
      {children}
    </Confirm>
  );
}
